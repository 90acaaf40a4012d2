"""Which cases judge a function: examples that are shown, and hidden ones that no constant answer passes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from posttrain.mine.cases import answer, key
from posttrain.protocols import Case

MAX_VISIBLE = 3
MAX_HIDDEN = 24
MIN_HIDDEN = 4
MAX_ALIKE = 0.5
"""The share of hidden cases that may expect the same answer."""
MAX_RAISING = 0.25


def split(examples: Sequence[Case], mutants: Iterable[Case]) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Return visible and hidden cases, all different: the first half of the examples is shown."""
    different = list({key(case): case for case in reversed(examples)}.values())[::-1]
    shown = different[: min(MAX_VISIBLE, math.ceil(len(different) / 2))]
    seen = {key(case) for case in shown}
    pool = [replace(case, hidden=True) for case in (*different[len(shown) :], *mutants)]
    fresh = {key(case): case for case in pool if key(case) not in seen}
    return tuple(replace(case, hidden=False) for case in shown), _balanced(list(fresh.values()))


def _balanced(pool: Sequence[Case]) -> tuple[Case, ...]:
    """Return up to MAX_HIDDEN cases: new answers first, and none of them too often."""
    rounds: Counter[str] = Counter()
    ranked = []
    for position, case in enumerate(pool):
        ranked.append((rounds[answer(case)], position, case))
        rounds[answer(case)] += 1
    chosen = [case for _, _, case in sorted(ranked, key=lambda item: item[:2])]
    raising = [case for case in chosen if case.comparator == "raises"]
    kept = capped(chosen, {key(case) for case in raising}, MAX_RAISING)[:MAX_HIDDEN]
    for common, _ in Counter(map(answer, kept)).most_common(1):
        kept = capped(kept, {key(case) for case in kept if answer(case) == common}, MAX_ALIKE)
    return tuple(kept)


def capped(cases: Sequence[Case], some: set[str], share: float) -> list[Case]:
    """Return the cases with only so many of `some`, first ones first, that they are at most this share."""
    others = sum(key(case) not in some for case in cases)
    room = math.floor(others * share / (1 - share))
    kept = []
    for case in cases:
        if key(case) in some:
            if room <= 0:
                continue
            room -= 1
        kept.append(case)
    return kept
