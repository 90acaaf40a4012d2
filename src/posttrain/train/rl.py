"""The loop: draw tasks, sample and judge attempts, move the policy toward what worked.

Everything a run does is on this page; the parts are handed in by `assembly`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from posttrain.assembly import Parts
from posttrain.batch import Batch
from posttrain.curriculum.mixture import Mixture
from posttrain.engines.torch import TorchEngine
from posttrain.policy.policy import Policy
from posttrain.policy.stats import UpdateStats
from posttrain.protocols import Algorithm
from posttrain.rollouts.collect import Collector, Harvest
from posttrain.rollouts.draw import drawn
from posttrain.rollouts.judge import enough_judged, trainable
from posttrain.rollouts.stream import stream
from posttrain.train.recorder import Recorder
from posttrain.train.summary import StepRecord
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class Loop:
    """What one run of reinforcement learning works with."""

    policy: Policy
    engine: TorchEngine
    curriculum: Mixture
    collector: Collector
    algorithm: Algorithm
    recorder: Recorder

    @classmethod
    def of(cls, parts: Parts, recorder: Recorder) -> Loop:
        """Return the loop that `parts.config` describes, before its first step."""
        run = parts.config.run
        policy = parts.policy(parts.config.optimizer, run.steps)
        if "reference" in parts.algorithm.needs:
            policy.snapshot_reference()
        collector = parts.collector("train", run.attempts, run.seed)
        return cls(policy, parts.engine, parts.mixture(), collector, parts.algorithm, recorder)


async def train(loop: Loop, steps: range, parts: Parts, interrupted: asyncio.Event) -> int:
    """Run `steps`, save what was learnt, and return the number of the last finished step.

    Step n samples with weight version n - 1 and writes version n. Setting `interrupted` ends the run
    after the step under way.
    """
    run, done = parts.config.run, steps.start - 1
    await loop.engine.load(loop.policy.weights(), version=done)
    harvests = stream(
        lambda count: drawn(loop.curriculum, count, loop.collector.aside),
        loop.collector.collect,
        lambda group: keeps(loop.algorithm, group),
        steps,
        run.groups,
        run.max_refills,
        run.max_staleness,
    )
    started = time.perf_counter()
    async for step, harvest in harvests:
        loop.curriculum.observe(harvest.groups)
        stats = await learn(loop, harvest)
        await loop.engine.load(loop.policy.weights(), version=step)
        loop.recorder.record(
            StepRecord(step, harvest, stats, time.perf_counter() - started), loop.curriculum.alarms
        )
        started, done = time.perf_counter(), step
        if step % run.checkpoint_every == 0 or step == steps.stop - 1 or interrupted.is_set():
            loop.recorder.checkpoint(step, loop.policy, loop.curriculum)
        if interrupted.is_set():
            break
    return done


async def learn(loop: Loop, harvest: Harvest) -> UpdateStats | None:
    """Take one optimizer step (or several, by setting) on what a harvest taught; None without a signal."""
    kept = [trainable(group) for group in harvest.groups if keeps(loop.algorithm, group)]
    if not kept:
        return None
    batch = Batch.of(kept, loop.curriculum.weights(kept))
    batch = await asyncio.to_thread(loop.policy.annotate, batch, loop.algorithm.needs)
    batch = replace(batch, advantages=loop.algorithm.advantages(batch))
    return await asyncio.to_thread(loop.policy.update, batch, loop.algorithm)


def keeps(algorithm: Algorithm, group: Group) -> bool:
    """Tell whether a group trains: enough of its attempts were judged, and the algorithm wants it."""
    left = trainable(group)
    return enough_judged(left) and algorithm.keeps(left)
