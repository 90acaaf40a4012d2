"""Comparators: whether an answer is the expected one. Both are plain data, so no one's `==` can lie.

A name finds its comparator, with its parameters after a colon:

    exact           the same types throughout: True is not 1, 1 is not 1.0, [] is not (); NaN is NaN; sets and
                    dictionaries have no order
    float:1e-6      as exact, but 1 may stand for 1.0, and where one of both is a float it may be off by
                    1e-6 × max(1, |expected|); texts: as token, and the same of words that are numbers
    token           texts of the same words, whatever the white space
    lines           texts of the same lines, but for white space at their ends and empty last lines
    unordered       as exact, but the order of the outermost list (a text's lines) does not matter
    == != < <= > >= in, not in, is, is not
                    what Python's operator says of answer and expected; `is` is exact here
    contains        Python's `expected in answer`
    truthy, falsy   Python's truth of the answer
    isclose:r,a     math.isclose(answer, expected, rel_tol=r, abs_tol=a)
    within:d        abs(answer - expected) <= d
    set ==          Python's set(answer) == expected; sorted, tuple, len … and other comparators likewise

Text comparators take bytes or text, which stands for its UTF-8.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from posttrain.sandbox import plain

Comparator = Callable[[Any, Any], bool]
"""(expected, answer) -> whether the answer will do; both are plain data."""

DEFAULT_TOLERANCE = 1e-6
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?|[+-]?inf|nan")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_MAX_NUMBER_BYTES = 400
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)


def matches(name: str, expected: object, answer: object) -> bool:
    """Tell whether an answer is the expected one; ValueError for a comparator that there is not.

    >>> matches("exact", [1, 2], [1, 2.0]), matches("float:1e-3", [1, 2.0], [1, 2.0001])
    (False, True)
    """
    comparator = find(name)
    try:
        return comparator(expected, answer)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        # A value that cannot be compared with the expected one, such as '1' < 2, is another.
        return False


def find(name: str) -> Comparator:
    """Return the comparator of a name; ValueError, naming those there are, for none."""
    if name in _SIMPLE:
        return _SIMPLE[name]
    view, _, rest = name.partition(" ")
    if view in VIEWS and rest:
        return _seen_through(VIEWS[view], find(rest))
    kind, _, rest = name.partition(":")
    try:
        numbers = tuple(map(float, rest.split(","))) if rest else ()
    except ValueError:
        numbers = (-1.0,)
    if kind in _WITH_NUMBERS and all(0 <= number < math.inf for number in numbers):
        num_parameters, make = _WITH_NUMBERS[kind]
        if len(numbers) == num_parameters:
            return make(*numbers)
        if kind == "float" and name == "float":
            return _near(DEFAULT_TOLERANCE)
    known = ", ".join((*_SIMPLE, "float:1e-6", "isclose:1e-9,0", "within:1e-6"))
    raise ValueError(f"comparator {name!r} is not known: choose one of {known}")


def same(expected: Any, answer: Any) -> bool:
    """Tell whether two values of plain data are the same, types included, throughout."""
    return _alike(expected, answer, _same_atom)


def canonical(value: Any) -> str:
    """Return a text that two values share if, and only if, they are the same."""
    kind = type(value)
    if kind in _SEQUENCES:
        return f"{kind.__name__}[{','.join(map(canonical, value))}]"
    if kind in _SETS:
        return f"{kind.__name__}[{','.join(sorted(map(canonical, value)))}]"
    if kind is dict:
        return f"dict[{','.join(sorted(f'{canonical(k)}:{canonical(v)}' for k, v in value.items()))}]"
    if kind is float:
        return f"float {value + 0.0!r}"  # -0.0 + 0.0 is 0.0
    if kind is complex:
        return f"complex {value.real + 0.0!r} {value.imag + 0.0!r}"
    return f"int {value:#x}" if kind is int else f"{kind.__name__} {value!r}"


def _alike(expected: Any, answer: Any, alike_atoms: Comparator) -> bool:
    """Tell whether two values are built alike, of atoms that are alike; keys and sets are the same."""
    kind = type(expected)
    if kind in _SEQUENCES:
        if type(answer) is not kind or len(answer) != len(expected):
            return False
        return all(_alike(a, b, alike_atoms) for a, b in zip(expected, answer, strict=True))
    if kind is dict:
        return type(answer) is dict and _alike_values(expected, answer, alike_atoms)
    if kind in _SETS:
        return type(answer) is kind and canonical(expected) == canonical(answer)
    return alike_atoms(expected, answer)


def _alike_values(expected: dict[Any, Any], answer: dict[Any, Any], alike_atoms: Comparator) -> bool:
    if len(expected) != len(answer):
        return False
    found = {canonical(key): value for key, value in answer.items()}
    missing = object()
    return all(
        _alike(value, found.get(canonical(key), missing), alike_atoms) for key, value in expected.items()
    )


def _same_atom(expected: Any, answer: Any) -> bool:
    kind = type(expected)
    if type(answer) is not kind:
        return False
    if kind is float:
        return bool(expected == answer) or (math.isnan(expected) and math.isnan(answer))
    return canonical(expected) == canonical(answer) if kind is complex else bool(expected == answer)


def _near(tolerance: float) -> Comparator:
    """Return the comparator `float`; in texts it compares words that are numbers."""

    def alike(expected: Any, answer: Any) -> bool:
        if type(expected) is bytes and type(answer) is bytes:
            return _near_words(expected.split(), answer.split(), alike)
        kinds = {type(expected), type(answer)}
        if not kinds <= {int, float, complex} or kinds == {int}:
            return _same_atom(expected, answer)
        if kinds <= {int, float}:
            return _near_reals(float(expected), float(answer), tolerance)
        a, b = complex(expected), complex(answer)
        return _near_reals(a.real, b.real, tolerance) and _near_reals(a.imag, b.imag, tolerance)

    return lambda expected, answer: _alike(expected, answer, alike)


def _near_reals(expected: float, answer: float, tolerance: float) -> bool:
    if not (math.isfinite(expected) and math.isfinite(answer)):
        return expected == answer or (math.isnan(expected) and math.isnan(answer))
    return abs(expected - answer) <= tolerance * max(1.0, abs(expected))


def _near_words(expected: Sequence[bytes], answer: Sequence[bytes], alike: Comparator) -> bool:
    def near(a: bytes, b: bytes) -> bool:
        return a == b or (_is_number(a) and _is_number(b) and alike(_number(a), _number(b)))

    return len(expected) == len(answer) and all(map(near, expected, answer))


def _is_number(word: bytes) -> bool:
    return len(word) <= _MAX_NUMBER_BYTES and _NUMBER.fullmatch(word) is not None


def _number(word: bytes) -> int | float:
    return int(word) if _INTEGER.fullmatch(word) else float(word)


def _text(value: Any) -> bytes:
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass")
    if type(value) is bytes:
        return value
    raise TypeError("neither text nor bytes")


def _same_words(expected: Any, answer: Any) -> bool:
    return _text(expected).split() == _text(answer).split()


def _lines(text: bytes) -> list[bytes]:
    lines = [line.rstrip() for line in text.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_lines(expected: Any, answer: Any) -> bool:
    return _lines(_text(expected)) == _lines(_text(answer))


def _unordered(expected: Any, answer: Any) -> bool:
    if type(expected) is not type(answer):
        return False
    if type(expected) in (str, bytes):
        return sorted(_lines(_text(expected))) == sorted(_lines(_text(answer)))
    if type(expected) not in _SEQUENCES:
        return same(expected, answer)
    return len(expected) == len(answer) and sorted(map(canonical, expected)) == sorted(map(canonical, answer))


def _to_set(values: Any) -> frozenset[Any]:
    items = list(values)
    plain.check_hashes(items)
    return frozenset(items)


def _seen_through(view: Callable[[Any], Any], comparator: Comparator) -> Comparator:
    return lambda expected, answer: comparator(expected, view(answer))


def _by_operator(operate: Callable[[Any, Any], Any]) -> Comparator:
    return lambda expected, answer: bool(operate(answer, expected))


def _is_close(relative: float, absolute: float) -> Comparator:
    return lambda expected, answer: math.isclose(answer, expected, rel_tol=relative, abs_tol=absolute)


def _within(distance: float) -> Comparator:
    return lambda expected, answer: bool(abs(answer - expected) <= distance)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "abs": abs,
    "bool": bool,
    "frozenset": _to_set,
    "len": len,
    "list": list,
    "set": lambda answer: set(_to_set(answer)),
    "sorted": sorted,
    "sum": sum,
    "tuple": tuple,
}
_SIMPLE: dict[str, Comparator] = {
    "exact": same,
    "token": _same_words,
    "lines": _same_lines,
    "unordered": _unordered,
    "==": _by_operator(operator.eq),
    "!=": _by_operator(operator.ne),
    "<": _by_operator(operator.lt),
    "<=": _by_operator(operator.le),
    ">": _by_operator(operator.gt),
    ">=": _by_operator(operator.ge),
    "in": lambda expected, answer: answer in expected,
    "not in": lambda expected, answer: answer not in expected,
    "is": same,
    "is not": lambda expected, answer: not same(expected, answer),
    "contains": lambda expected, answer: expected in answer,
    "truthy": lambda expected, answer: bool(answer),
    "falsy": lambda expected, answer: not answer,
}
_WITH_NUMBERS: dict[str, tuple[int, Callable[..., Comparator]]] = {
    "float": (1, _near),
    "isclose": (2, _is_close),
    "within": (1, _within),
}
