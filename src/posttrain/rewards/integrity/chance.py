"""What is earned without solving anything: by a constant, the input itself, or a memory of listed tests."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from posttrain.protocols import Case
from posttrain.rewards.integrity.cases import inputs, key, reply

MAX_TEXT = 2_000
SHORT = 300


def baseline(listed: Sequence[Case], unseen: Sequence[Case]) -> float:
    """Return the share of unseen cases that the best of these would pass; 0.0 without unseen cases.

    The best are: the one answer that most unseen cases expect, each input given back, the answer of the
    listed case that is nearest.
    """
    if not unseen:
        return 0.0
    most_common = Counter(map(reply, unseen)).most_common(1)[0][1]
    return max(most_common, _echoed(unseen), _remembered(listed, unseen)) / len(unseen)


def is_no_better(share: float, chance: float, num_cases: int, sigmas: float) -> bool:
    """Tell whether a share of so many cases is within `sigmas` standard deviations of chance.

    A full share always is better.
    """
    if share >= 1.0 or num_cases == 0:
        return False
    return share <= chance + sigmas * math.sqrt(chance * (1 - chance) / num_cases) + 1e-9


def _echoed(unseen: Sequence[Case]) -> int:
    """Return how many cases expect one of their inputs, always the one at the same place."""
    width = max(len(inputs(case)) for case in unseen)
    return max(
        (
            sum(
                len(given) > place and key(given[place]) == key(case.expected)
                for case in unseen
                for given in [inputs(case)]
            )
            for place in range(width)
        ),
        default=0,
    )


def _remembered(listed: Sequence[Case], unseen: Sequence[Case]) -> int:
    """Return how many cases the nearest listed one has the answer of, as near is best understood."""
    known = [case for case in listed if case.comparator not in ("asserts", "custom")]
    if not known:
        return 0
    return max(
        sum(
            reply(min(known, key=lambda each: far(inputs(each), inputs(case)))) == reply(case)
            for case in unseen
        )
        for far in (distance, _in_text, _in_size, _in_end)
    )


def _in_text(one: Any, other: Any) -> float:
    return 1.0 - SequenceMatcher(None, repr(one)[:SHORT], repr(other)[:SHORT], autojunk=False).ratio()


def _in_size(one: Any, other: Any) -> float:
    return abs(len(repr(one)) - len(repr(other)))


def _in_end(one: Any, other: Any) -> float:
    ends = (repr(each).rstrip("]),'\"")[::-1] for each in (one, other))
    return -float(
        sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=False)))
    )


def distance(one: Any, other: Any) -> float:
    """Return how far two values are apart, from 0.0 for the same to 1.0 for values of different kinds."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return float(key(one) != key(other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        gap = abs(one - other)
        return 0.0 if gap == 0 else min(1.0, gap / (1.0 + min(abs(one) + abs(other), 1e300)))
    if isinstance(one, str | bytes) and type(one) is type(other):
        return _far(Counter(one[:MAX_TEXT]), Counter(other[:MAX_TEXT])) * 0.7 + 0.3 * float(
            one[:1] != other[:1]
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        longest = max(len(one), len(other))
        if not longest:
            return 0.0
        paired = sum(distance(a, b) for a, b in zip(one, other, strict=False))
        return (paired + abs(len(one) - len(other))) / longest
    if type(one) is type(other):
        return float(key(one) != key(other))
    return 1.0


def _far(one: Counter[Any], other: Counter[Any]) -> float:
    total = sum(one.values()) + sum(other.values())
    return (sum((one - other).values()) + sum((other - one).values())) / max(1, total)
