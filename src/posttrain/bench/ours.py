"""One step of our own loop at a time, in a process of its own: sample, judge, learn, load the weights.

The same parts as `train/rl.py` in the same order, without a run folder; stop tokens are ignored, so that
every attempt has the same length.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from pydantic import TypeAdapter

from posttrain import __version__
from posttrain.assembly import Parts, opened
from posttrain.assembly.settings import Config, Run
from posttrain.batch import Batch
from posttrain.bench.lines import Lines
from posttrain.bench.steps import StepSettings
from posttrain.curriculum.mixture import Mixture
from posttrain.engines.torch import TorchEngine
from posttrain.models.load import Model
from posttrain.models.lora import Lora, owned
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.policy.stats import UpdateStats
from posttrain.protocols import Sampling, Sandbox
from posttrain.rollouts.collect import Harvest
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory


def main(lines: Lines, settings: Mapping[str, Any]) -> None:
    """Answer each line with the time of one step of the loop that `settings` (StepSettings) describe."""
    asyncio.run(_serve(lines, TypeAdapter(StepSettings).validate_python(settings)))


def fixed_prompts(prompts: tuple[str, ...]) -> Domain:
    """Return a domain whose tasks are `prompts` in turn; rewards differ between almost all answers."""

    def task(split: Split, level: int, index: int) -> Task:
        text = prompts[index % len(prompts)]
        return Task(f"{split}-{index}", "fixed", level, (Message("user", text),), {})

    async def checksum(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return Reward(zlib.crc32(trajectory.answer.encode()) / 2**32)

    return Domain("fixed", lambda split, level: None, task, checksum)


def learner(settings: StepSettings) -> Learner:
    """Return the learner's settings: its defaults wherever nothing else is asked for."""
    chosen = Learner()
    if settings.micro_batch is not None:
        chosen = replace(chosen, token_budget=settings.micro_batch)
    return chosen if settings.checkpointing is None else replace(chosen, checkpointing=settings.checkpointing)


def config(settings: StepSettings) -> Config:
    """Return the run that the settings describe."""
    return Config(
        domains=({"use": f"{__name__}:fixed_prompts", "prompts": list(settings.prompts)},),
        model=Model(
            source=settings.model,
            dtype=settings.dtype,
            device=settings.device,
            lora=Lora(rank=settings.rank, alpha=settings.alpha),
        ),
        sampling=Sampling(max_tokens=settings.tokens),
        optimizer=AdamW(learning_rate=settings.learning_rate),
        learner=learner(settings),
        run=Run(
            steps=settings.max_steps,
            groups=len(settings.prompts),
            attempts=settings.attempts,
            seed=settings.seed,
        ),
    )


async def _serve(lines: Lines, settings: StepSettings) -> None:
    torch.set_num_threads(settings.threads)
    async with opened(config(settings)) as made:
        engine = TorchEngine(made.model, made.config.engine, ignore_stop=True)
        parts = replace(made, engine=engine)
        run = parts.config.run
        collector, mixture = parts.collector("train", run.attempts, run.seed), parts.mixture()
        policy = parts.policy(parts.config.optimizer, run.steps)
        lines.answer(_facts(parts))
        version = 0
        while lines.wait():
            started, cpu = time.perf_counter(), time.process_time()
            harvest = await collector.collect(mixture.draw(run.groups))
            stats = await learn(parts, policy, mixture, harvest)
            assert stats is not None, "rewards differ in every group"
            assert (stats.num_rows, stats.num_steps) == (run.groups * run.attempts, 1), stats.skipped
            version += 1
            await engine.load(policy.weights(), version=version)
            seconds = time.perf_counter() - started
            lines.answer({"seconds": seconds, "cpu_seconds": time.process_time() - cpu, **_did(harvest)})
        engine.close()


async def learn(parts: Parts, policy: Policy, mixture: Mixture, harvest: Harvest) -> UpdateStats | None:
    """Take one step on the groups with a signal; None without any."""
    mixture.observe(harvest.groups)
    kept = [group for group in harvest.groups if parts.algorithm.keeps(group)]
    if not kept:
        return None
    batch = Batch.of(kept, mixture.weights(kept))
    batch = await asyncio.to_thread(policy.annotate, batch, parts.algorithm.needs)
    batch = replace(batch, advantages=parts.algorithm.advantages(batch))
    return await asyncio.to_thread(policy.update, batch, parts.algorithm)


def _facts(parts: Parts) -> dict[str, Any]:
    settings = parts.config.learner
    return {
        "version": __version__,
        "torch": torch.__version__,
        "num_trainable": sum(p.numel() for _, p in owned(parts.model.module)),
        "micro_batch": settings.token_budget,
        "rows": parts.config.run.groups * parts.config.run.attempts,
        "checkpointing": settings.checkpointing,
        "threads": torch.get_num_threads(),
    }


def _did(harvest: Harvest) -> dict[str, Any]:
    prompts = [list(group.trajectories[0].turns[0].tokens) for group in harvest.groups]
    return {
        "sampling_seconds": harvest.sample_seconds,
        "prompts": hashlib.sha256(json.dumps(prompts).encode()).hexdigest(),
        "num_tokens": harvest.num_tokens,
    }
