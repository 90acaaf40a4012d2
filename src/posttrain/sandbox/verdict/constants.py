"""The value of an expression that is made of constants, computed without running it as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_SIZE = 100_000
"""Elements, characters or bits that a computed value may have."""

Names = Mapping[str, Any]
UNKNOWN = object()
"""The value of a name that is known to be something else than its builtin."""


class NotConstant(ValueError):
    """The expression asks for more than constants and simple arithmetic."""


def value(node: ast.expr, names: Names) -> Any:
    """Return the value of an expression, given those of names; raise NotConstant where it has none here.

    >>> value(ast.parse("[0.5] * n + sorted((3, 2))", mode="eval").body, {"n": 2})
    [0.5, 0.5, 2, 3]
    """
    try:
        return _value(node, names)
    except NotConstant:
        raise
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise NotConstant(f"{type(error).__name__}: {error}") from None


def _value(node: ast.expr, names: Names) -> Any:
    if isinstance(node, ast.Constant) and node.value is not Ellipsis:
        return node.value
    if isinstance(node, ast.Name) and names.get(node.id, UNKNOWN) is not UNKNOWN:
        return names[node.id]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return _CONTAINERS[type(node)](_values(node.elts, names))
    if isinstance(node, ast.Dict):
        keys = [key for key in node.keys if key is not None]
        if len(keys) == len(node.keys):
            return dict(zip(_values(keys, names), _values(node.values, names), strict=True))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.BinOp):
        return _operated(node.op, _value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call):
        return _called(node, names)
    raise NotConstant(f"{type(node).__name__} in line {node.lineno}")


def _values(nodes: list[ast.expr], names: Names) -> Iterator[Any]:
    return (_value(node, names) for node in nodes)


def _called(node: ast.Call, names: Names) -> Any:
    if not isinstance(node.func, ast.Name) or node.func.id in names or node.keywords:
        raise NotConstant(f"a call in line {node.lineno}")
    if node.func.id not in _FUNCTIONS:
        raise NotConstant(f"{node.func.id}() in line {node.lineno}")
    arguments = list(_values(node.args, names))
    if node.func.id == "range" and len(range(*arguments)) > MAX_SIZE:
        raise NotConstant(f"a range of {len(range(*arguments))} numbers")
    return _FUNCTIONS[node.func.id](*arguments)


def _operated(operation: ast.operator, left: Any, right: Any) -> Any:
    """Return left ∘ right, unless the result would be very large."""
    size = _size(left) + _size(right)
    if isinstance(operation, ast.Mult) and not isinstance(left, float) and not isinstance(right, float):
        size = max(size, _times(left, right), _times(right, left))
    if isinstance(operation, ast.Pow | ast.LShift) and isinstance(left, int) and isinstance(right, int):
        size = max(1, left.bit_length()) * max(1, right)
    if isinstance(operation, ast.Mod) and isinstance(left, str | bytes):
        raise NotConstant("formatting")
    if size > MAX_SIZE:
        raise NotConstant(f"a value of size {size}")
    return _BINARY[type(operation)](left, right)


def _size(operand: Any) -> int:
    if isinstance(operand, int):
        return operand.bit_length()
    return len(operand) if isinstance(operand, _SIZED) else 1


def _times(some: Any, times: Any) -> int:
    return _size(some) * times if isinstance(some, _SIZED) and isinstance(times, int) else 0


_SIZED = (str, bytes, list, tuple, set, frozenset, dict)
_CONTAINERS: dict[type[ast.expr], Callable[..., Any]] = {ast.List: list, ast.Tuple: tuple, ast.Set: set}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        abs, bool, dict, float, frozenset, len, list, max, min, range, round, set, sorted, str, sum, tuple,
    )
}  # fmt: skip
