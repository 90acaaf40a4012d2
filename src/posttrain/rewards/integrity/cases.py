"""What a test tells apart: its question and answer as text, and how many bits a value carries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from posttrain.protocols import Case

ORDINARY: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 0.0, 1.0, "", b"", (), [], {}, set())
"""What any honest program may name: these values tell nothing."""
BITS_PER_ITEM = 2.0
MAX_ITEMS = 2_000


def key(value: Any) -> str:
    """Return text that two values of plain data share if they are the same, types included."""
    kind = type(value).__name__
    if isinstance(value, list | tuple):
        return f"{kind}[{','.join(map(key, value))}]"
    if isinstance(value, set | frozenset):
        return f"{kind}[{','.join(sorted(map(key, value)))}]"
    if isinstance(value, dict):
        return f"{kind}[{','.join(sorted(f'{key(k)}:{key(v)}' for k, v in value.items()))}]"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int {value:#x}"
    return f"{kind} {value!r}"


def question(case: Case) -> str:
    """Return what a case asks, as text."""
    stdin = key(case.stdin) if case.function is None else ""
    return f"{case.function} {key(case.arguments)} {key(dict(case.keywords))} {stdin}"


def reply(case: Case) -> str:
    """Return what a case expects, as text."""
    return f"{case.comparator} {key(case.expected)}"


def inputs(case: Case) -> tuple[Any, ...]:
    """Return the values that a case gives to a program."""
    if case.function is None:
        return (case.stdin.decode("utf-8", "replace"),)
    return (*case.arguments, *case.keywords.values())


def bits(value: Any, known: frozenset[str] = frozenset()) -> float:
    """Return about how many bits tell a value from others of its kind.

    `known` holds the keys of values that need no explanation; they carry none.
    """
    return _bits(value, known, MAX_ITEMS)


def _bits(value: Any, known: frozenset[str], left: int) -> float:
    if any(type(value) is type(each) and value == each for each in ORDINARY) or key(value) in known:
        return 0.0
    if isinstance(value, int):
        return math.log2(1 + abs(value)) + (value < 0) if abs(value) < 2**1000 else 1000.0
    if isinstance(value, float):
        return min(32.0, 3.3 * len(repr(value).replace(".", "").replace("0", "")))
    if isinstance(value, str | bytes):
        return _text_bits(value if isinstance(value, str) else value.decode("latin-1"), known)
    if isinstance(value, dict):
        value = [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)[:left]
        return sum(_bits(item, known, left // 2) for item in items) + BITS_PER_ITEM * max(0, len(items) - 1)
    return 0.0


def _text_bits(text: str, known: frozenset[str]) -> float:
    """Return 3 bits for each character of the words that are not known; white space tells little."""
    words = [word for word in re.findall(r"\w+|[^\w\s]", text) if key(word) not in known]
    return sum(3.0 * min(len(word), 40) for word in words)


def words_of(statement: str) -> frozenset[str]:
    """Return the keys of all that a statement names: words, numbers, quoted texts."""
    found: set[str] = set()
    for quoted in re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`", statement):
        found.update(key(part) for part in quoted)
    for word in re.findall(r"-?\d+\.\d+|-?\d+|\w+", statement):
        found.add(key(word))
        found.update(_numbers(word))
    return frozenset(found)


def without_examples(statement: str, function: str | None) -> str:
    """Return a statement without the lines that show calls of the function: they are tests, not rules."""
    if not function:
        return statement
    call = re.compile(rf"\b{re.escape(function)}\(")
    lines = statement.splitlines()
    return "\n".join(line for line in lines if not call.search(line) or line.lstrip().startswith("def "))


def _numbers(word: str) -> Iterable[str]:
    try:
        value: int | float = float(word) if "." in word else int(word)
    except ValueError:
        return ()
    return key(value), key(-value), key(float(value))
