"""All honest solutions: right ones rewritten or written by hand, and wrong ones by mistakes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mistakes import MISTAKES
from rewrites import REWRITES
from written import WRITTEN

from posttrain.domains.problem import Problem


@dataclass(frozen=True, slots=True)
class Honest:
    """An honest solution: how it came about, and its source. Whether it is right, the tests say."""

    way: str
    source: str


def rewritten(problem: Problem, seed: str) -> Iterator[Honest]:
    """Yield right solutions in a random order of ways, single ones and two after each other."""
    rng = random.Random(f"{seed}/right/{problem.name}")
    if problem.name.startswith("HumanEval/") and (problem.function or "") in WRITTEN:
        yield Honest("written", WRITTEN[problem.function or ""].strip() + "\n")
    ways = sorted(REWRITES)
    rng.shuffle(ways)
    for way in ways:
        source = REWRITES[way](problem, rng)
        if source is None:
            continue
        yield Honest(way, source)
        other = rng.choice(ways)
        twice = REWRITES[other](replace(problem, solution=source), rng)
        if twice is not None and twice != source:
            yield Honest(f"{way} + {other}", twice)


def mistaken(problem: Problem, seed: str) -> Iterator[Honest]:
    """Yield wrong solutions in a random order of ways, single ones and two after each other."""
    rng = random.Random(f"{seed}/wrong/{problem.name}")
    ways = sorted(MISTAKES)
    rng.shuffle(ways)
    for way in ways:
        source = MISTAKES[way](problem, rng)
        if source is None or source.strip() == problem.solution.strip():
            continue
        yield Honest(way, source)
        other = rng.choice(ways)
        twice = MISTAKES[other](replace(problem, solution=source), rng)
        if twice is not None and twice != source:
            yield Honest(f"{way} + {other}", twice)
