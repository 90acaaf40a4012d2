"""Operators on constants that refuse what would become too large."""

from __future__ import annotations

from typing import Any

MAX_SIZE = 100_000
MAX_BITS = 65_536


class NotConstant(Exception):
    """An expression is none that is worked out here."""


def power(base: Any, exponent: Any) -> Any:
    """Return base**exponent; NotConstant where it would be too large."""
    if not isinstance(base, int) or not isinstance(exponent, int):
        return float(base) ** float(exponent)
    if not 0 <= exponent <= MAX_BITS or base.bit_length() * exponent > MAX_BITS:
        raise NotConstant
    return base**exponent


def shift(value: Any, count: Any) -> Any:
    """Return value << count; NotConstant where it would be too large."""
    if not 0 <= count <= MAX_BITS:
        raise NotConstant
    return value << count


def times(left: Any, right: Any) -> Any:
    """Return left * right; NotConstant where it would be too large."""
    for some, count in ((left, right), (right, left)):
        if isinstance(some, str | bytes | list | tuple) and (
            not isinstance(count, int) or len(some) * count > MAX_SIZE
        ):
            raise NotConstant
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise NotConstant
    return left * right


def modulo(left: Any, right: Any) -> Any:
    """Return left % right of numbers; NotConstant for texts."""
    if not isinstance(left, int | float):
        raise NotConstant  # formatting can make texts of any length
    return left % right
