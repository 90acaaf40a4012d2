"""What a bad domain costs seven healthy ones, and whether verdicts hide behind sampling.

    python benchmarks/verifying.py

Judges a step of seven healthy domains, each running a small program in the sandbox, alone and with an eighth
domain that waits for ever, blocks its thread, or keeps its boxes busy until their CPU limit. What counts is
how many healthy groups are judged in a second, until the last of them. The last row samples with an engine
that takes its time: how much of the step is spent waiting for verdicts once sampling has ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from posttrain.chat.template import Chat
from posttrain.engines.scripted import Scripted
from posttrain.engines.telling import Told
from posttrain.models import tiny
from posttrain.protocols import Completion, Draw, Limits, Program, Request, Sampling
from posttrain.rollouts.collect import Collector
from posttrain.rollouts.judge import Deadlines
from posttrain.runtime.inline import Aside
from posttrain.sandbox import Local
from posttrain.types import Domain, Message, Reward, Task, Trajectory, VerifyFunction

NUM_HEALTHY = 7
GROUPS = 2
ATTEMPTS = 8
DEADLINE_SECONDS = 4.0
CPU_SECONDS = 2.0
SMALL = Program("python", "print(sum(n * n for n in range(20000)))")
BUSY = Program("python", "while True: pass")
BAD = ("none", "waits", "blocks", "busy")


@dataclass(frozen=True, slots=True)
class Row:
    """One step: healthy groups per second, and verdicts that were there when the bad one was given up."""

    bad: str
    groups_per_second: float
    step_seconds: float
    verify_seconds: float
    num_unjudged: int


class Slow:
    """The scripted engine at the pace of a real one: it tells of a completion every few milliseconds."""

    def __init__(self, inner: Scripted, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds
        self.version, self.load, self.generate = inner.version, inner.load, inner.generate

    async def generate_telling(self, wave: Sequence[Request], told: Told) -> list[Completion]:
        completions = await self._inner.generate(wave)
        for index, completion in enumerate(completions):
            await asyncio.sleep(self._seconds)
            told(index, completion)
        return completions


def draws(finished: list[float], bad: str) -> list[Draw]:
    """Return the draws of one step, the bad domain's first."""

    async def healthy(trajectory: Trajectory, sandbox: Any, files: Any) -> Reward:
        result = await sandbox.run(SMALL)
        finished.append(time.perf_counter())
        return Reward(float(result.status == "OK"))

    async def waits(trajectory: Trajectory, sandbox: Any, files: Any) -> Reward:
        await asyncio.Event().wait()
        return Reward(0.0)

    async def blocks(trajectory: Trajectory, sandbox: Any, files: Any) -> Reward:
        time.sleep(60)
        return Reward(0.0)

    async def busy(trajectory: Trajectory, sandbox: Any, files: Any) -> Reward:
        result = await sandbox.run(BUSY, Limits(cpu_seconds=CPU_SECONDS))
        return Reward(float(result.status == "OK"))

    verifiers: dict[str, VerifyFunction] = {"waits": waits, "blocks": blocks, "busy": busy}
    asked = [(bad, verifiers[bad])] * GROUPS if bad in verifiers else []
    asked += [(f"healthy{i % NUM_HEALTHY}", healthy) for i in range(NUM_HEALTHY * GROUPS)]
    return [draw(i, name, verify) for i, (name, verify) in enumerate(asked)]


def draw(sequence: int, name: str, verify: VerifyFunction) -> Draw:
    """Return the draw of one task of the domain `name`."""
    task = Task(f"t{sequence}", name, 0, (Message("user", "?"),), {})
    return Draw(sequence, Domain(name, lambda split, level: None, lambda s, n, i: task, verify), task)


async def measured(collector: Collector, bad: str) -> Row:
    """Collect one step and return its row."""
    finished: list[float] = []
    step = draws(finished, bad)
    started = time.perf_counter()
    harvest = await collector.collect(step)
    seconds = time.perf_counter() - started
    unjudged = sum(len(group.verdicts) - len(group.judged) for group in harvest.groups)
    pace = NUM_HEALTHY * GROUPS / (max(finished) - started)
    return Row(bad, pace, seconds, harvest.verify_seconds, unjudged)


async def study(repeats: int, sample_seconds: float) -> list[Row]:
    """Return the rows of all bad domains, `repeats` times in turn, and of the slow engine."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(tiny.make(Path(folder) / "model"))
    chat = Chat(tokenizer, frozenset({tokenizer.convert_tokens_to_ids("<|im_end|>")}))
    engine = Scripted(lambda request: chat.answer("yes"), chat.stop_tokens)
    settings, aside = Local(), Aside()
    sandbox = await settings.open()
    collector = Collector(
        engine=engine, chat=chat, sandbox=sandbox, aside=aside, sampling=Sampling(max_tokens=8),
        deadlines=Deadlines(verify_seconds=DEADLINE_SECONDS), attempts=ATTEMPTS, context=2048, seed=0,
        purpose="train", boxes=settings.num_boxes,
    )  # fmt: skip
    try:
        await measured(collector, "none")  # warm workers
        rows = [await measured(collector, bad) for _ in range(repeats) for bad in BAD]
        paced = replace(collector, engine=Slow(engine, sample_seconds))
        return [*rows, replace(await measured(paced, "none"), bad="none, slow engine")]
    finally:
        aside.close()
        await sandbox.close()


def main() -> None:
    """Print the table, or the rows as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--sample-seconds", type=float, default=0.03, help="the slow engine's, for each attempt"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = asyncio.run(study(asked.repeats, asked.sample_seconds))
    if asked.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    best = max(row.groups_per_second for row in rows if row.bad == "none")
    print(f"{len(os.sched_getaffinity(0))} cores, {NUM_HEALTHY} healthy domains, {ATTEMPTS} attempts a group")
    for row in rows:
        print(
            f"bad: {row.bad:18} healthy groups/s {row.groups_per_second:6.2f} "
            f"({row.groups_per_second / best:4.0%})  step {row.step_seconds:5.1f} s  "
            f"waiting after sampling {row.verify_seconds / row.step_seconds:4.0%}  "
            f"unjudged {row.num_unjudged}"
        )


if __name__ == "__main__":
    main()
