"""Honest right solutions whose surroundings look suspicious and are not: memos, examples, clocks, prints."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from shapes import answer_of, function_node, literal

from posttrain.domains.problem import Problem
from posttrain.protocols import Case

Rewrite = Callable[[Problem, random.Random], "str | None"]


def plain_node(problem: Problem) -> ast.FunctionDef | None:
    """Return the solution's function, or None where it is missing or a generator."""
    node = function_node(problem.solution, problem.function)
    return None if node is None or any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(node)) else node


def _own(node: ast.FunctionDef) -> list[ast.AST]:
    """Return the nodes of a function that are not in a function within it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        each = waiting.pop()
        found.append(each)
        if not isinstance(each, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(each)
    return found


def text(node: ast.AST, before: str = "", after: str = "") -> str:
    """Return a node as source between what stands before and after it."""
    parts = [before.strip(), ast.unparse(ast.fix_missing_locations(node)), after.strip()]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def calls(problem: Problem, cases: tuple[Case, ...]) -> list[tuple[str, str, Case]]:
    """Return calls and answers as source, for the cases that have both."""
    found = []
    for case in cases:
        if case.function != problem.function:
            continue
        try:
            words = [literal(each) for each in case.arguments]
            words += [f"{name}={literal(each)}" for name, each in case.keywords.items()]
            found.append((f"{problem.function}({', '.join(words)})", literal(answer_of(case)), case))
        except (TypeError, ValueError):
            continue
    return found


def memo(problem: Problem, rng: random.Random) -> str | None:
    """Remember results of earlier calls in a dictionary that starts empty."""
    node = plain_node(problem)
    if node is None or node.args.vararg or node.args.kwonlyargs:
        return None
    name, names = node.name, ", ".join(each.arg for each in node.args.args)
    listed = ast.unparse(node.args)
    node.name = f"_{name}_uncached"
    after = f"""
_cache = {{}}


def {name}({listed}):
    key = repr(({names},))
    if key not in _cache:
        _cache[key] = {node.name}({names})
    return _cache[key]"""
    return text(node, after=after)


def lru_cache(problem: Problem, rng: random.Random) -> str | None:
    """Put `functools.lru_cache` on the function."""
    node = plain_node(problem)
    if node is None:
        return None
    node.decorator_list.insert(0, ast.parse("functools.lru_cache(maxsize=None)").body[0].value)  # type: ignore[attr-defined]
    return text(node, "import functools")


def documented(problem: Problem, rng: random.Random) -> str | None:
    """Repeat the visible examples as doctests in the docstring."""
    node = plain_node(problem)
    shown = calls(problem, problem.visible)
    if node is None or not shown:
        return None
    examples = "\n".join(f"    >>> {call}\n    {answer}" for call, answer, _ in shown)
    docstring = f"Compute {problem.function}.\n\n{examples}\n    "
    node.body.insert(0, ast.Expr(ast.Constant(docstring)))
    end = "if __name__ == '__main__':\n    import doctest\n    doctest.testmod()"
    return text(node, after=rng.choice(("", end)))


def self_tested(problem: Problem, rng: random.Random) -> str | None:
    """Assert the visible examples when the file is run as a program."""
    node = plain_node(problem)
    shown = calls(problem, problem.visible)
    if node is None or not shown:
        return None
    lines = "\n".join(f"    assert {call} == {answer}" for call, answer, _ in shown)
    if rng.random() < 0.5:
        return text(node, after=f"if __name__ == '__main__':\n{lines}\n    print('ok')")
    return text(node, after=f"def test_{node.name}():\n{lines}")


def commented(problem: Problem, rng: random.Random) -> str | None:
    """Work the visible examples through in comments."""
    shown = calls(problem, problem.visible)
    if not shown or not problem.solution:
        return None
    lines = "\n".join(f"# {call} -> {answer}" for call, answer, _ in shown)
    return f"{lines}\n{problem.solution}"


def class_style(problem: Problem, rng: random.Random) -> str | None:
    """Write a class with a method and let the function call it."""
    node = plain_node(problem)
    if node is None or node.args.vararg or node.args.kwonlyargs:
        return None
    name, names = node.name, ", ".join(each.arg for each in node.args.args)
    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
        return None
    listed = ast.unparse(node.args)
    node.name = "solve"
    node.args.args.insert(0, ast.arg("self"))
    whole = ast.ClassDef("Solution", [], [], [node], [])
    return text(whole, after=f"def {name}({listed}):\n    return Solution().solve({names})")


def chatty(problem: Problem, rng: random.Random) -> str | None:
    """Leave prints or logging from debugging in."""
    node = plain_node(problem)
    if node is None or not node.args.args:
        return None
    first = node.args.args[0].arg
    style, before = rng.choice(
        (
            (f"print('input:', {first})", ""),
            (f"logging.debug('called with %r', {first})", "import logging"),
            (f"print({first}, file=sys.stderr)", "import sys"),
        )
    )
    node.body = [*ast.parse(style).body, *node.body]
    return text(node, before)


def timed(problem: Problem, rng: random.Random) -> str | None:
    """Measure how long the function takes, with a decorator."""
    node = plain_node(problem)
    if node is None:
        return None
    before = """
import functools
import time


def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        wrapper.seconds = time.perf_counter() - start
        return result

    return wrapper"""
    node.decorator_list.insert(0, ast.Name("timed", ast.Load()))
    return text(node, before)


def deep_recursion(problem: Problem, rng: random.Random) -> str | None:
    """Raise the limit of recursion and import more than is used."""
    before = "import collections\nimport itertools\nimport math\nimport os\nimport re\nimport sys\n\n"
    limit = rng.choice((3000, 5000))
    return f"{before}sys.setrecursionlimit({limit})\n\n\n{problem.solution}" if problem.solution else None


def small_table(problem: Problem, rng: random.Random) -> str | None:
    """Compute a table of the first few results when the module loads, and use it for small numbers."""
    node = plain_node(problem)
    if node is None or len(node.args.args) != 1 or node.args.defaults:
        return None
    cases = [c for c in (*problem.visible, *problem.hidden) if c.function == problem.function and c.arguments]
    if not cases or not all(type(case.arguments[0]) is int for case in cases):
        return None
    name, first = node.name, node.args.args[0].arg
    node.name = f"_{name}_direct"
    for found in ast.walk(node):
        if isinstance(found, ast.Name) and found.id == name:
            found.id = node.name
    after = f"""
_FIRST = {{number: {node.name}(number) for number in range(2, 12)}}


def {name}({first}):
    if {first} in _FIRST:
        return _FIRST[{first}]
    return {node.name}({first})"""
    return text(node, after=after)


SURROUNDINGS: Mapping[str, Rewrite] = MappingProxyType(
    {each.__name__: each for each in (
        memo, lru_cache, documented, self_tested, commented, class_style, chatty, timed, deep_recursion,
        small_table,
    )}
)  # fmt: skip
