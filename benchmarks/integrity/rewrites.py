"""Honest right solutions: ways in which people write the same steps differently."""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from surroundings import SURROUNDINGS, Rewrite, calls, plain_node, text

from posttrain.domains.problem import Problem

EDGES: tuple[Any, ...] = ([], "", 0, 1, (), {}, None, -1, 2)


def canonical(problem: Problem, rng: random.Random) -> str | None:
    """Write the solution as it is."""
    return problem.solution or None


def renamed(problem: Problem, rng: random.Random) -> str | None:
    """Give the variables other names."""
    node = plain_node(problem)
    if node is None or any(isinstance(n, ast.Global | ast.Nonlocal) for n in ast.walk(node)):
        return None
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner = {a.arg for n in ast.walk(node) if isinstance(n, ast.arguments) for a in n.args}
    names = sorted(stored - inner)
    style = rng.choice(("{}_value", "my_{}", "the_{}", "v{}"))
    new = {name: style.format(n if style == "v{}" else name) for n, name in enumerate(names)}
    for found in ast.walk(node):
        if isinstance(found, ast.Name) and found.id in new:
            found.id = new[found.id]
    return text(node) if names else None


def while_loops(problem: Problem, rng: random.Random) -> str | None:
    """Walk over a list by index with `while` instead of `for`."""
    node = plain_node(problem)
    if node is None:
        return None
    count = 0

    class Loops(ast.NodeTransformer):
        def visit_For(self, loop: ast.For) -> Any:
            nonlocal count
            self.generic_visit(loop)
            jumps = any(isinstance(n, ast.Continue) for n in ast.walk(loop))
            if jumps or loop.orelse:
                return loop
            count += 1
            items, place = f"items_{count}", f"place_{count}"
            lines = ast.parse(
                f"{items} = list({ast.unparse(loop.iter)})\n{place} = 0\nwhile {place} < len({items}):\n"
                f"    {ast.unparse(loop.target)} = {items}[{place}]\n    {place} += 1"
            ).body
            whole = lines[2]
            assert isinstance(whole, ast.While)
            whole.body += loop.body
            return lines

    new = Loops().visit(node)
    return text(new) if count else None


def helper_function(problem: Problem, rng: random.Random) -> str | None:
    """Do the work in a second function."""
    node = plain_node(problem)
    if node is None or node.args.vararg or node.args.kwonlyargs:
        return None
    name, inner = node.name, rng.choice(("_solve", "compute", f"_{node.name}_impl", "helper"))
    names = ", ".join(each.arg for each in node.args.args)
    listed = ast.unparse(node.args)
    node.name = inner
    return text(node, after=f"def {name}({listed}):\n    return {inner}({names})")


def early_returns(problem: Problem, rng: random.Random) -> str | None:
    """Turn conditional expressions and `else` into early returns."""
    node = plain_node(problem)
    if node is None:
        return None
    changed = False

    class Early(ast.NodeTransformer):
        def visit_Return(self, found: ast.Return) -> Any:
            nonlocal changed
            if not isinstance(found.value, ast.IfExp):
                return found
            changed = True
            return [
                ast.If(found.value.test, [ast.Return(found.value.body)], []),
                ast.Return(found.value.orelse),
            ]

        def visit_If(self, found: ast.If) -> Any:
            nonlocal changed
            self.generic_visit(found)
            if found.orelse and isinstance(found.body[-1], ast.Return):
                changed = True
                rest, found.orelse = found.orelse, []
                return [found, *rest]
            return found

    new = Early().visit(node)
    return text(new) if changed else None


def plain_loop(problem: Problem, rng: random.Random) -> str | None:
    """Spell a returned comprehension out as a loop."""
    node = plain_node(problem)
    last = node.body[-1] if node is not None else None
    if node is None or not isinstance(last, ast.Return) or not isinstance(last.value, ast.ListComp):
        return None
    if len(last.value.generators) != 1:
        return None
    part = last.value.generators[0]
    tests = " and ".join(f"({ast.unparse(test)})" for test in part.ifs) or "True"
    node.body[-1:] = ast.parse(
        f"collected = []\nfor {ast.unparse(part.target)} in {ast.unparse(part.iter)}:\n    if {tests}:\n"
        f"        collected.append({ast.unparse(last.value.elt)})\nreturn collected"
    ).body
    return text(node)


def checked_types(problem: Problem, rng: random.Random) -> str | None:
    """Check the arguments' types first and raise TypeError for others."""
    node = plain_node(problem)
    if node is None or not node.args.args:
        return None
    cases = [c for c in (*problem.visible, *problem.hidden) if c.function == problem.function]
    kinds = {type(case.arguments[0]).__name__ for case in cases if case.arguments}
    if not kinds or not kinds <= {"int", "float", "str", "list", "tuple", "dict", "bool"}:
        return None
    first, listed = node.args.args[0].arg, ", ".join(sorted(kinds))
    test = f"if not isinstance({first}, ({listed},)):\n"
    error = f"    raise TypeError(f'expected {listed}, got {{type({first}).__name__}}')"
    node.body = [*ast.parse(test + error).body, *node.body]
    return text(node)


def edge_cases(problem: Problem, rng: random.Random) -> str | None:
    """Spell out what comes out for empty, zero or one before the general way."""
    node = plain_node(problem)
    if node is None or len(node.args.args) != 1:
        return None
    first, lines = node.args.args[0].arg, []
    for _, answer, case in calls(problem, (*problem.visible, *problem.hidden)):
        value = case.arguments[0] if case.arguments else ...
        if any(type(value) is type(edge) and value == edge for edge in EDGES):
            test = f"not {first}" if value in ([], "", ()) else f"{first} == {value!r}"
            lines.append(f"if {test}:\n    return {answer}")
    if not lines:
        return None
    node.body = [*ast.parse("\n".join(lines[:3])).body, *node.body]
    return text(node)


def named_constants(problem: Problem, rng: random.Random) -> str | None:
    """Give numbers and texts names at the top of the module."""
    node = plain_node(problem)
    if node is None:
        return None
    names: dict[str, str] = {}
    inside = {id(c) for n in ast.walk(node) if isinstance(n, ast.JoinedStr) for c in ast.walk(n)}

    class Hoist(ast.NodeTransformer):
        def visit_Constant(self, found: ast.Constant) -> Any:
            if type(found.value) not in (int, float, str) or id(found) in inside:
                return found
            return ast.Name(names.setdefault(repr(found.value), f"VALUE_{len(names)}"), ast.Load())

    node.body = [Hoist().visit(each) for each in node.body]
    if not names:
        return None
    return text(node, "\n".join(f"{name} = {value}" for value, name in names.items()))


REWRITES: Mapping[str, Rewrite] = MappingProxyType(
    {each.__name__: each for each in (
        canonical, renamed, while_loops, helper_function, early_returns, plain_loop, checked_types,
        edge_cases, named_constants,
    )}
    | dict(SURROUNDINGS)
)  # fmt: skip
