"""Credit by field: how much of a JSON value agrees with the gold one.

A leaf is a value that holds no other: text, a number, true, false, null, or an empty list or object.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from posttrain.types import JSON

_SPARE_ITEMS = 16
"""A list may be twice as long as the gold one and this much longer before it is not compared."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many leaves agree, of how many that either value has."""

    matched: int
    total: int

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(self.matched + other.matched, self.total + other.total)

    @property
    def share(self) -> float:
        """Return the share of leaves that agree; 1.0 where there are none."""
        return self.matched / self.total if self.total else 1.0


def agreement(given: JSON, gold: JSON) -> Agreement:
    """Return how many leaves of the two values agree; one that only one of them has counts against it.

    Items of lists are paired in order, so that the most leaves agree; left-out and added ones count as
    missing. So a field that nobody asked for costs as much as one that is wrong.

    >>> agreement({"a": 1, "b": [2, 3]}, {"a": 1, "b": [3]}).share
    0.6666666666666666
    """
    if isinstance(given, dict) and isinstance(gold, dict) and (given or gold):
        return _sum(_member(given, gold, key) for key in {**gold, **given})
    if isinstance(given, list) and isinstance(gold, list) and (given or gold):
        if len(given) > 2 * len(gold) + _SPARE_ITEMS:
            return Agreement(0, num_leaves(given) + num_leaves(gold))
        return _aligned(given, gold)
    if equal(given, gold):
        return Agreement(1, 1)
    return Agreement(0, max(num_leaves(given), num_leaves(gold)))


def num_leaves(value: JSON) -> int:
    """Count the leaves of a value."""
    if isinstance(value, dict) and value:
        return sum(num_leaves(item) for item in value.values())
    if isinstance(value, list) and value:
        return sum(num_leaves(item) for item in value)
    return 1


def equal(given: JSON, gold: JSON) -> bool:
    """Tell whether two leaves are the same JSON value.

    Numbers are compared by value, but true is no number; text after Unicode's NFC and with single spaces.

    >>> equal(3.0, 3), equal(True, 1), equal("3", 3)
    (True, False, False)
    """
    if isinstance(given, str) and isinstance(gold, str):
        return _plain(given) == _plain(gold)
    if isinstance(given, bool) or isinstance(gold, bool):
        return given is gold
    if isinstance(given, int | float) and isinstance(gold, int | float):
        return given == gold
    return type(given) is type(gold) and given == gold


def _member(given: dict[str, JSON], gold: dict[str, JSON], key: str) -> Agreement:
    if key in given and key in gold:
        return agreement(given[key], gold[key])
    return Agreement(0, num_leaves(given[key] if key in given else gold[key]))


def _aligned(given: Sequence[JSON], gold: Sequence[JSON]) -> Agreement:
    """Return the best agreement over all ways to pair items in order (longest common subsequence)."""
    best = [_sum(Agreement(0, num_leaves(item)) for item in gold[:n]) for n in range(len(gold) + 1)]
    for item in given:
        alone = Agreement(0, num_leaves(item))
        row = [best[0] + alone]
        for n, wanted in enumerate(gold):
            missing = Agreement(0, num_leaves(wanted))
            choices = (best[n] + agreement(item, wanted), best[n + 1] + alone, row[n] + missing)
            row.append(max(choices, key=lambda each: (each.matched, -each.total)))
        best = row
    return best[-1]


def _sum(parts: Iterable[Agreement]) -> Agreement:
    return sum(parts, start=Agreement(0, 0))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
