"""The measured process of `posttrain bench sandbox` on our side: it grades solutions in the local sandbox."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from posttrain.bench.lines import Lines
from posttrain.sandbox import Case, Local, LocalSandbox, Program


@dataclass(frozen=True, slots=True)
class GradeSettings:
    """What a side grades: each step takes the next of `batches` in turn, `parallel` solutions at a time.

    `tests` are pairs of an argument and the right answer, the same for all solutions; `level` our sandbox's.
    """

    grader: str
    cores: tuple[int, ...]
    batches: tuple[tuple[str, ...], ...]
    tests: tuple[tuple[list[int], int], ...]
    level: str = "landlock"

    @property
    def parallel(self) -> int:
        return len(self.cores)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as the process reads them."""
        return {**asdict(self), "parallel": self.parallel}


@dataclass(frozen=True, slots=True)
class Graded:
    """One step: how long all took, and each solution alone, from its start to its verdict."""

    seconds: float
    each_seconds: list[float]
    num_passed: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """A side is ready, in the version that it names."""

    version: str
    peak_bytes: int


def main(lines: Lines, settings: dict[str, Any]) -> None:
    """Answer each line with the time that a batch took."""
    os.sched_setaffinity(0, settings["cores"])
    asyncio.run(_serve(lines, settings))


async def _serve(lines: Lines, settings: dict[str, Any]) -> None:
    sandbox = await Local(workers=settings["parallel"], min_level=settings["level"]).open()
    try:
        lines.answer({"version": settings["level"]})
        step = 0
        while lines.wait():
            batch = settings["batches"][step % len(settings["batches"])]
            cases = [Case(expected, "f", (argument,)) for argument, expected in settings["tests"]]
            lines.answer(await _grade(sandbox, batch, cases, settings["parallel"]))
            step += 1
    finally:
        await sandbox.close()


async def _grade(
    sandbox: LocalSandbox, batch: Sequence[str], cases: Sequence[Case], parallel: int
) -> dict[str, Any]:
    waiting = iter(batch)
    each: list[float] = []
    passed = 0

    async def grader() -> None:
        nonlocal passed
        for source in waiting:
            begun = time.perf_counter()
            result = await sandbox.test(Program("python", source), cases)
            each.append(time.perf_counter() - begun)
            passed += result.status == "OK"

    started = time.perf_counter()
    await asyncio.gather(*(grader() for _ in range(parallel)))
    return {"seconds": time.perf_counter() - started, "each_seconds": each, "num_passed": passed}
