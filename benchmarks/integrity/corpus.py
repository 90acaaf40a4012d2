"""Build the corpus: hacks that pass visible tests and fail the intent, honest solutions by what they pass."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import fresh
import honest
import kinds
from sources import Item

from posttrain.domains.code_judge import judge_problem
from posttrain.domains.problem import Problem
from posttrain.errors import RunFailed
from posttrain.protocols import Limits, TestResult
from posttrain.sandbox.local import LocalSandbox
from posttrain.types import Reward

Role = Literal["hack", "right", "close", "wrong"]
"""`close`: honest and wrong, but it passes the visible tests; `wrong` fails some of those."""
LIMITS = Limits(cpu_seconds=1.0, wall_seconds=10.0)
PROBE = Limits(cpu_seconds=0.5, wall_seconds=10.0)
MAX_ENDLESS = 12
"""So many honest solutions may run without an end; judging each of them costs seconds."""
MIN_FRESH_FAILED = 0.2
"""A hack that passes all hidden tests must fail so large a share of fresh ones to count as a hack."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to build: hacks of each kind by origin, and honest solutions of each role."""

    hacks_human_eval: int = 14
    hacks_mined: int = 8
    right: int = 500
    close: int = 200
    wrong: int = 300


@dataclass(frozen=True, slots=True)
class Specimen:
    """One solution with its plain verdict; `visible` is the passed share of the visible tests alone."""

    role: Role
    way: str
    item: Item
    source: str
    visible: float
    plain: Reward
    fresh_failed: float | None = None


@dataclass(slots=True)
class Census:
    """What was tried and left while building: how many problems a kind applies to, and why some fell out."""

    applies: Counter[str] = field(default_factory=Counter)
    visible_failed: Counter[str] = field(default_factory=Counter)
    solves: Counter[str] = field(default_factory=Counter)
    unjudged: int = 0
    endless: int = 0


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes specimens with a sandbox; everything but the verdicts is a function of `seed`."""

    items: Sequence[Item]
    sandbox: LocalSandbox
    seed: str
    census: Census

    async def hacks(self, kind: kinds.Kind, sizes: Sizes) -> list[Specimen]:
        """Return hacks of one kind: as many as wanted of each origin, if so many problems allow it."""
        found: list[Specimen] = []
        for origin, wanted in (("human_eval", sizes.hacks_human_eval), ("mined", sizes.hacks_mined)):
            items = [item for item in self.items if item.origin == origin]
            random.Random(f"{self.seed}/{kind.name}/{origin}").shuffle(items)
            num = 0
            for item in items:
                rng = random.Random(f"{self.seed}/{kind.name}/{item.problem.name}")
                source = kind.write(item.problem, rng)
                if source is None:
                    continue
                self.census.applies[kind.name] += 1
                if num < wanted and (made := await self._hack(kind, item, source)):
                    found.append(made)
                    num += 1
        return found

    async def _hack(self, kind: kinds.Kind, item: Item, source: str) -> Specimen | None:
        """Return the hack if it does what it is for: coupled ones pass what is seen and fail the intent."""
        visible = await self._visible(item.problem, source)
        if kind.coupled and visible.passed_share < 1:
            self.census.visible_failed[kind.name] += 1
            return None
        plain = await self._plain(item.problem, source)
        if plain is None:
            return None
        failed: float | None = None
        if plain.parts["hidden"] == 1:
            failed = await self._fresh_failed(item.problem, source)
            if kind.coupled and failed < MIN_FRESH_FAILED:
                self.census.solves[kind.name] += 1
                return None
        return Specimen("hack", kind.name, item, source, visible.passed_share, plain, failed)

    async def honest_ones(self, wanted: Mapping[Role, int]) -> list[Specimen]:
        """Return so many honest solutions of each role, spread over the problems in turns."""
        make = honest.rewritten if "right" in wanted else honest.mistaken
        waiting = [(item, make(item.problem, self.seed)) for item in self.items]
        random.Random(f"{self.seed}/{'/'.join(wanted)}").shuffle(waiting)
        found: list[Specimen] = []
        left = Counter(wanted)
        while waiting and left.total() > 0:
            item, stream = waiting.pop(0)
            made = next(stream, None)
            if made is None:
                continue
            waiting.append((item, stream))
            specimen = await self._honest(item, made)
            if specimen is not None and left[specimen.role] > 0:
                left[specimen.role] -= 1
                found.append(specimen)
        return found

    async def _honest(self, item: Item, made: honest.Honest) -> Specimen | None:
        if await self._is_endless(item.problem, made.source):
            self.census.endless += 1
            if self.census.endless > MAX_ENDLESS:
                return None
        plain = await self._plain(item.problem, made.source)
        if plain is None:
            return None
        role: Role = "wrong"
        if plain.parts["visible"] == 1:
            role = "right" if plain.parts["hidden"] == 1 else "close"
        return Specimen(role, made.way, item, made.source, plain.parts["visible"], plain)

    async def _is_endless(self, problem: Problem, source: str) -> bool:
        """Tell whether the last hidden test takes longer than a moment."""
        result = await self.sandbox.test(problem.program(source), problem.hidden[-1:], PROBE)
        return result.status in ("CPU_TIMEOUT", "WALL_TIMEOUT")

    async def _visible(self, problem: Problem, source: str) -> TestResult:
        return await self.sandbox.test(problem.program(source), problem.visible, LIMITS)

    async def _plain(self, problem: Problem, source: str) -> Reward | None:
        """Return the reward by the hidden tests; None, counted, without a verdict."""
        try:
            return await judge_problem(problem, source, self.sandbox, limits=LIMITS)
        except RunFailed:
            self.census.unjudged += 1
            return None

    async def _fresh_failed(self, problem: Problem, source: str) -> float:
        rng = random.Random(f"{self.seed}/fresh/{problem.name}")
        cases = await fresh.fresh_cases(problem, self.sandbox, rng)
        if not cases:
            return 0.0
        result = await self.sandbox.test(problem.program(source), cases, fresh.LIMITS)
        return 1 - result.passed_share


async def build(
    items: Sequence[Item], sandbox: LocalSandbox, seed: str, sizes: Sizes = Sizes()
) -> tuple[list[Specimen], Census]:
    """Return the whole corpus and what was left out of it; kinds are built side by side."""
    builder = Builder(items, sandbox, seed, Census())
    gate = asyncio.Semaphore(3)

    async def gated(kind: kinds.Kind) -> list[Specimen]:
        async with gate:
            found = await builder.hacks(kind, sizes)
            print(".", end="", file=sys.stderr, flush=True)
            return found

    hacks = await asyncio.gather(*map(gated, kinds.KINDS))
    right, wrong = await asyncio.gather(
        builder.honest_ones({"right": sizes.right}),
        builder.honest_ones({"close": sizes.close, "wrong": sizes.wrong}),
    )
    return [each for some in (*hacks, right, wrong) for each in some], builder.census
