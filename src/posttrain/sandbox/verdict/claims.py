"""One assertion about a function's answer, read from its syntax as a case; nothing is run."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from posttrain.protocols import Case
from posttrain.sandbox.verdict.compare import VIEWS
from posttrain.sandbox.verdict.constants import NotConstant, value

OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
MIRRORED = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "is": "is",
    "is not": "is not",
}
MIRRORED["in"] = "contains"


@dataclass(slots=True)
class Scope:
    """What names mean in test code: `candidates` the function to test, `names` constants or UNKNOWN."""

    candidates: set[str]
    names: dict[str, Any]

    def mentions(self, node: ast.AST) -> bool:
        """Tell whether the function to test occurs in an expression."""
        return any(isinstance(part, ast.Name) and part.id in self.candidates for part in ast.walk(node))

    def is_builtin(self, node: ast.expr, *names: str) -> bool:
        """Tell whether an expression is one of these names, in their usual meaning."""
        root = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        return root in names and root.partition(".")[0] not in self.names


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of the function to test, and what is done to its answer before it is compared."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    view: str = ""

    def case(self, comparator: str, expected: Any = None) -> Case:
        """Return the case of this call; its function is filled in later."""
        name = f"{self.view} {comparator}" if self.view else comparator
        return Case(expected, None, self.arguments, self.keywords, comparator=name)


def read_claim(claim: ast.expr, scope: Scope) -> Iterator[Case]:
    """Yield the cases that an asserted expression means; NotConstant where it means something else."""
    if isinstance(claim, ast.BoolOp) and isinstance(claim.op, ast.And):
        for part in claim.values:
            yield from read_claim(part, scope)
    elif isinstance(claim, ast.Compare) and len(claim.ops) == 1:
        yield _comparison(claim.left, OPERATORS[type(claim.ops[0])], claim.comparators[0], scope)
    elif isinstance(claim, ast.UnaryOp) and isinstance(claim.op, ast.Not):
        yield read_call(claim.operand, scope).case("falsy")
    elif isinstance(claim, ast.Call) and scope.is_builtin(claim.func, "isclose", "math.isclose"):
        yield _closeness(claim, scope)
    elif not (isinstance(claim, ast.Constant) and claim.value):
        yield read_call(claim, scope).case("truthy")


def read_call(node: ast.expr, scope: Scope) -> Asked:
    """Read f(…), or set(f(…)) and the like; NotConstant where it is something else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise NotConstant(f"no call in line {node.lineno}")
    if node.func.id in scope.candidates:
        arguments = tuple(value(argument, scope.names) for argument in node.args)
        return Asked(arguments, {_keyword(k): value(k.value, scope.names) for k in node.keywords})
    if scope.is_builtin(node.func, *VIEWS) and len(node.args) == 1 and not node.keywords:
        asked = read_call(node.args[0], scope)
        if not asked.view:
            return Asked(asked.arguments, asked.keywords, node.func.id)
    raise NotConstant(f"a call in line {node.lineno}")


def _keyword(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise NotConstant(f"** in line {keyword.value.lineno}")
    return keyword.arg


def _comparison(left: ast.expr, operator: str, right: ast.expr, scope: Scope) -> Case:
    if scope.mentions(right):
        if operator not in MIRRORED:
            raise NotConstant(f"the order in line {left.lineno}")
        left, operator, right = right, MIRRORED[operator], left
    expected = value(right, scope.names)
    if operator in ("is", "is not") and not (expected is None or type(expected) is bool):
        raise NotConstant(f"identity in line {left.lineno}")
    if operator in ("<", "<=") and type(expected) in (int, float):
        near = _distance(left, scope)
        bound = float(expected) if operator == "<=" else math.nextafter(expected, -math.inf)
        if near is not None and bound >= 0:
            return near[0].case(f"within:{bound!r}", near[1])
    return read_call(left, scope).case(operator, expected)


def _distance(node: ast.expr, scope: Scope) -> tuple[Asked, Any] | None:
    """Read abs(f(…) - c), either way round."""
    if not isinstance(node, ast.Call) or not scope.is_builtin(node.func, "abs", "math.fabs", "fabs"):
        return None
    difference = node.args[0] if len(node.args) == 1 else None
    if not isinstance(difference, ast.BinOp) or not isinstance(difference.op, ast.Sub):
        return None
    left, right = difference.left, difference.right
    if scope.mentions(right):
        left, right = right, left
    return read_call(left, scope), value(right, scope.names)


def _closeness(claim: ast.Call, scope: Scope) -> Case:
    """Read isclose(f(…), c), either way round."""
    bounds = {"rel_tol": 1e-9, "abs_tol": 0.0}
    for keyword in claim.keywords:
        if keyword.arg not in bounds:
            raise NotConstant(f"isclose in line {claim.lineno}")
        bounds[keyword.arg] = float(value(keyword.value, scope.names))
    if len(claim.args) != 2 or min(bounds.values()) < 0:
        raise NotConstant(f"isclose in line {claim.lineno}")
    left, right = claim.args
    if scope.mentions(right):
        left, right = right, left
    comparator = f"isclose:{bounds['rel_tol']!r},{bounds['abs_tol']!r}"
    return read_call(left, scope).case(comparator, value(right, scope.names))
