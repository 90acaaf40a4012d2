"""Honest wrong solutions: slips in a right one, unfinished ones, and partial ones for a common subset.

None of them looks at visible tests.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from shapes import function_node, literal

from posttrain.domains.problem import Problem

Mistake = Callable[[Problem, random.Random], "str | None"]
Site = Callable[[ast.AST], "ast.AST | list[ast.AST] | None"]
"""What a node is replaced with, or None where the slip cannot happen."""
COMPARISONS: Mapping[type, type] = MappingProxyType(
    {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.In: ast.NotIn}
)
OPERATORS: Mapping[type, type] = MappingProxyType(
    {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv,
     ast.Div: ast.FloorDiv, ast.Pow: ast.Mult}
)  # fmt: skip
MIX_UPS: Mapping[str, str] = MappingProxyType(
    {"min": "max", "max": "min", "any": "all", "all": "any", "append": "extend", "upper": "lower",
     "sorted": "list", "lower": "upper", "sum": "len", "floor": "ceil", "ceil": "floor", "isupper": "islower",
     "set": "list", "startswith": "endswith", "int": "float", "islice": "chain", "abs": "int",
     "isalpha": "isalnum"}
)  # fmt: skip


def _slip(problem: Problem, rng: random.Random, site: Site) -> str | None:
    """Return the solution with one slip at a random place where it can happen."""
    node = function_node(problem.solution, problem.function)
    if node is None:
        return None
    places = [each for each in ast.walk(node) if each is not node and site(copy.deepcopy(each)) is not None]
    if not places:
        return None
    chosen = rng.choice(places)

    class Swap(ast.NodeTransformer):
        def visit(self, found: ast.AST) -> ast.AST | list[ast.AST] | None:
            return site(found) if found is chosen else self.generic_visit(found)

    Swap().visit(node)
    try:
        return ast.unparse(ast.fix_missing_locations(node)) + "\n"
    except (ValueError, AttributeError):
        return None


def off_by_one(problem: Problem, rng: random.Random) -> str | None:
    """Take a number one too small or too large."""
    step = rng.choice((-1, 1))

    def site(node: ast.AST) -> ast.AST | None:
        is_number = isinstance(node, ast.Constant) and type(node.value) is int
        return ast.Constant(node.value + step) if is_number else None  # type: ignore[attr-defined]

    return _slip(problem, rng, site)


def wrong_comparison(problem: Problem, rng: random.Random) -> str | None:
    """Mix up < and <=, or == and !=."""

    def site(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Compare) or type(node.ops[0]) not in COMPARISONS:
            return None
        return ast.Compare(node.left, [COMPARISONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)

    return _slip(problem, rng, site)


def wrong_operator(problem: Problem, rng: random.Random) -> str | None:
    """Use another arithmetic operator."""

    def site(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
        if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            return ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
        return None

    return _slip(problem, rng, site)


def negated_condition(problem: Problem, rng: random.Random) -> str | None:
    """Ask for the opposite."""

    def site(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.If | ast.IfExp):
            return None
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    return _slip(problem, rng, site)


def missed_case(problem: Problem, rng: random.Random) -> str | None:
    """Forget a case that needs treatment of its own."""

    def site(node: ast.AST) -> ast.AST | list[ast.AST] | None:
        return (list(node.orelse) or [ast.Pass()]) if isinstance(node, ast.If) else None

    return _slip(problem, rng, site)


def missing_statement(problem: Problem, rng: random.Random) -> str | None:
    """Leave out a step inside a loop or branch."""
    return _slip(
        problem, rng, lambda node: ast.Pass() if isinstance(node, ast.AugAssign | ast.Expr) else None
    )


def and_for_or(problem: Problem, rng: random.Random) -> str | None:
    """Join conditions with the other word."""

    def site(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.BoolOp):
            return None
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)

    return _slip(problem, rng, site)


def mixed_up_function(problem: Problem, rng: random.Random) -> str | None:
    """Call the function next to the right one."""

    def site(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.Name) and node.id in MIX_UPS:
            return ast.Name(MIX_UPS[node.id], node.ctx)
        if isinstance(node, ast.Attribute) and node.attr in MIX_UPS:
            return ast.Attribute(node.value, MIX_UPS[node.attr], node.ctx)
        return None

    return _slip(problem, rng, site)


def wrong_variable(problem: Problem, rng: random.Random) -> str | None:
    """Use another variable of the function."""
    node = function_node(problem.solution, problem.function)
    names = sorted({n.id for n in ast.walk(node) if _is_stored(n)} if node else set())  # type: ignore[attr-defined]
    if len(names) < 2:
        return None

    def site(found: ast.AST) -> ast.AST | None:
        if not isinstance(found, ast.Name) or not isinstance(found.ctx, ast.Load) or found.id not in names:
            return None
        return ast.Name(names[(names.index(found.id) + 1) % len(names)], ast.Load())

    return _slip(problem, rng, site)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def early_return(problem: Problem, rng: random.Random) -> str | None:
    """Indent the last return too far, so that the loop ends after one round."""
    node = function_node(problem.solution, problem.function)
    if node is None or len(node.body) < 2 or not isinstance(node.body[-1], ast.Return):
        return None
    loop = node.body[-2]
    if not isinstance(loop, ast.For | ast.While):
        return None
    loop.body.append(node.body.pop())
    return ast.unparse(node) + "\n"


def wrong_start(problem: Problem, rng: random.Random) -> str | None:
    """Start a count or product at the wrong value."""

    def site(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
            return None
        start = node.value.value
        if not isinstance(start, int | float) or isinstance(start, bool):
            return None
        return ast.Assign(node.targets, ast.Constant(1 - start), lineno=node.lineno)

    return _slip(problem, rng, site)


def swapped_arguments(problem: Problem, rng: random.Random) -> str | None:
    """Pass the first two arguments of a call the wrong way round."""

    def site(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            return None
        return ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)

    return _slip(problem, rng, site)


def unfinished(problem: Problem, rng: random.Random) -> str | None:
    """Stop after the first steps."""
    node = function_node(problem.solution, problem.function)
    if node is None or len(node.body) < 2:
        return None
    node.body = node.body[: rng.randrange(1, len(node.body))]
    if rng.random() < 0.3:
        node.body += ast.parse("raise NotImplementedError('to do')").body
    return ast.unparse(node) + "\n"


def stub(problem: Problem, rng: random.Random) -> str | None:
    """Give an empty value of the kind that is wanted, by the look of the solution's return."""
    node = function_node(problem.solution, problem.function)
    if node is None:
        return None
    value = rng.choice(("None", "0", "[]", '""', "False", "True", "{}"))
    body = rng.choice((f"return {value}", "pass", "raise NotImplementedError", "# TODO\n    return None"))
    return f"def {node.name}({ast.unparse(node.args)}):\n    {body}\n"


def unclosed(problem: Problem, rng: random.Random) -> str | None:
    """Lose a bracket or a colon, so that it does not compile."""
    places = [place for place, letter in enumerate(problem.solution) if letter in "):"]
    if not places:
        return None
    place = rng.choice(places)
    return problem.solution[:place] + problem.solution[place + 1 :] + "\n"


def misnamed(problem: Problem, rng: random.Random) -> str | None:
    """Give the function another name."""
    node = function_node(problem.solution, problem.function)
    if node is None:
        return None
    node.name = rng.choice(("solution", "main", f"{node.name}_fn", "solve"))
    return ast.unparse(node) + "\n"


def missing_import(problem: Problem, rng: random.Random) -> str | None:
    """Use a module that was never imported."""
    node = function_node(problem.solution, problem.function)
    if node is None or not node.args.args:
        return None
    first = node.args.args[0].arg
    node.body.insert(0, ast.parse(f"{first} = np.asarray({first}).tolist()").body[0])
    return ast.unparse(node) + "\n"


def small_only(problem: Problem, rng: random.Random) -> str | None:
    """Handle short inputs or small numbers and refuse the rest."""
    return _refusing(problem, ("len({0}) > 4", "len({0}) > 6"), ("{0} > 10", "{0} > 50"))


def positive_only(problem: Problem, rng: random.Random) -> str | None:
    """Handle what is not empty or positive and refuse the rest."""
    return _refusing(problem, ("len({0}) < 2",), ("{0} < 1", "{0} < 0"))


def _refusing(problem: Problem, sized: tuple[str, ...], number: tuple[str, ...]) -> str | None:
    node = function_node(problem.solution, problem.function)
    cases = [case for case in problem.hidden if case.function == problem.function and case.arguments]
    if node is None or not node.args.args or not cases:
        return None
    first, value = node.args.args[0].arg, cases[0].arguments[0]
    if isinstance(value, list | str | tuple | dict):
        test = sized[len(problem.name) % len(sized)]
    elif type(value) in (int, float):
        test = number[len(problem.name) % len(number)]
    else:
        return None
    refusal = f"if {test.format(first)}:\n    raise NotImplementedError({literal('not handled yet')})"
    node.body = [*ast.parse(refusal).body, *node.body]
    return ast.unparse(ast.fix_missing_locations(node)) + "\n"


SLIPS: Mapping[str, Mistake] = MappingProxyType(
    {each.__name__: each for each in (
        off_by_one, wrong_comparison, wrong_operator, negated_condition, missed_case, missing_statement,
        and_for_or, mixed_up_function, wrong_variable, early_return, wrong_start, swapped_arguments,
    )}
)  # fmt: skip
MISTAKES: Mapping[str, Mistake] = MappingProxyType(
    {**SLIPS, **{each.__name__: each for each in (
        unfinished, stub, unclosed, misnamed, missing_import, small_only, positive_only,
    )}}
)  # fmt: skip
