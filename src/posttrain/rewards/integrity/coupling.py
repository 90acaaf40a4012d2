"""Whether a part of a program was made for listed tests: what it serves, and what it carries of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from posttrain.protocols import Case
from posttrain.rewards.integrity.cases import bits, inputs, key
from posttrain.rewards.integrity.removals import Removal

MIN_TEXT_BITS = 8.0
MIN_OPAQUE_BITS = 24.0
"""A part with constants of so many bits can carry tests in a form that is not read."""

PURE = 0.6
"""The share of a table's entries that are tests, from which it is a table of tests."""


def told_by(removal: Removal, case: Case, known: frozenset[str]) -> bool:
    """Tell whether a part holds a case's question or answer among its constants."""
    return any(form in removal.literals for value in wholes(case, known) for form in forms(value)) or any(
        text in held
        for value in wholes(case, known)
        if bits(value, known) >= MIN_TEXT_BITS
        for text in _texts(value)
        for held in removal.texts
    )


def wholes(case: Case, known: frozenset[str]) -> list[Any]:
    """Return the values of a case by which a program could know it: each input, all of them, the answer."""
    given = inputs(case)
    values = [*given, given, list(given), case.expected]
    return [value for value in values if bits(value, known) > 0]


def forms(value: Any) -> Iterable[str]:
    """Yield the keys of a value and of what it is usually turned into to be a key of a table."""
    yield key(value)
    if isinstance(value, list):
        yield key(tuple(value))
    if isinstance(value, tuple):
        yield key(list(value))
    if isinstance(value, dict):
        yield key(tuple(sorted(value.items(), key=repr)))
    if isinstance(value, str):
        yield key(value.encode("utf-8", "replace"))
        yield key(value.strip())
    for text in _texts(value):
        yield key(text)


def _texts(value: Any) -> list[str]:
    found = [str(value), repr(value), repr(value).replace(" ", "")]
    with contextlib.suppress(TypeError, ValueError):
        found.append(json.dumps(value))
    return [text for text in dict.fromkeys(found) if text]


def weight(cases: Sequence[Case], known: frozenset[str]) -> float:
    """Return how many bits tell these cases, questions and answers, from others."""
    total = 0.0
    for case in cases:
        own = sum(bits(value, known) for value in inputs(case))
        total += own + min(bits(case.expected, known), 2 * own + 4)
    return total


def is_made_for(removal: Removal, lost: Sequence[Case], known: frozenset[str]) -> bool:
    """Tell whether a part carries the tests that are lost without it: to be read, or in much that is not."""
    return any(told_by(removal, case, known) for case in lost) or removal.opaque_bits >= MIN_OPAQUE_BITS


def recited(removal: Removal, cases: Sequence[Case], known: frozenset[str]) -> list[Case]:
    """Return the cases that a table consists of: most of its entries are their questions, with answers."""
    found: dict[int, Case] = {}
    matched = 0
    for question, answer in removal.table:
        asked = [case for case in cases if question in questions(case, known)]
        held = [case for case in asked if not answer or answer in forms(case.expected)]
        matched += bool(held)
        found |= {id(case): case for case in held}
    return list(found.values()) if matched >= PURE * max(1, len(removal.table)) else []


def held_by(literals: frozenset[str], cases: Sequence[Case], known: frozenset[str]) -> list[Case]:
    """Return the cases whose distinctive question, and answer, stand among constants."""
    return [
        case
        for case in cases
        if sum(bits(value, known) for value in inputs(case)) >= MIN_TEXT_BITS
        and not questions(case, known).isdisjoint(literals)
        and not literals.isdisjoint(forms(case.expected))
    ]


def questions(case: Case, known: frozenset[str]) -> set[str]:
    """Return the keys by which a table can hold a case's question."""
    given = inputs(case)
    asked = [given, *given] if len(given) == 1 else [given]
    return {form for value in asked if bits(value, known) > 0 for form in forms(value)}
