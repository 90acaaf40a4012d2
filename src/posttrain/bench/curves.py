"""Our side of `bench parity`: one whole training run for each line, its mean reward at every step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import TypeAdapter

from posttrain.assembly import opened
from posttrain.assembly.settings import Config, Run
from posttrain.bench.lines import Lines
from posttrain.bench.ours import learn
from posttrain.models.load import Model
from posttrain.models.lora import Lora
from posttrain.policy.optimizer import AdamW
from posttrain.protocols import Sampling, Sandbox
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory


@dataclass(frozen=True, slots=True)
class CurveSettings:
    """What both sides train on: an attempt earns the share of its first `places` tokens that are `wanted`.

    The reward looks at token ids, so that no difference in decoding enters it. Seed `seed` + n belongs to
    the n-th run of a process.
    """

    model: str
    threads: int
    prompts: tuple[str, ...]
    wanted: tuple[int, ...]
    places: int
    steps: int
    groups: int
    attempts: int
    tokens: int
    rank: int
    alpha: int
    learning_rate: float
    seed: int


def main(lines: Lines, settings: Mapping[str, Any]) -> None:
    """Answer each line with the rewards of one run of the settings (CurveSettings)."""
    run = TypeAdapter(CurveSettings).validate_python(settings)
    torch.set_num_threads(run.threads)
    lines.answer({})
    seed = run.seed
    while lines.wait():
        lines.answer({"rewards": asyncio.run(_rewards(run, seed))})
        seed += 1


def share_of_tokens(prompts: tuple[str, ...], wanted: tuple[int, ...], places: int) -> Domain:
    """Return the domain: `prompts` in turn, rewarded by which tokens an answer starts with."""
    good = frozenset(wanted)

    def task(split: Split, level: int, index: int) -> Task:
        text = prompts[index % len(prompts)]
        return Task(f"{split}-{index}", "tokens", level, (Message("user", text),), {})

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return Reward(sum(token in good for token in trajectory.turns[-1].tokens[:places]) / places)

    return Domain("tokens", lambda split, level: None, task, verify)


def config(run: CurveSettings, seed: int) -> Config:
    """Return the run that the settings describe; the optimizer's constants are those of TRL's."""
    domain = {
        "use": f"{__name__}:share_of_tokens",
        "prompts": list(run.prompts),
        "wanted": list(run.wanted),
        "places": run.places,
    }
    return Config(
        domains=(domain,),
        model=Model(source=run.model, dtype="float32", device="cpu", lora=Lora(run.rank, run.alpha)),
        sampling=Sampling(max_tokens=run.tokens),
        optimizer=AdamW(learning_rate=run.learning_rate, betas=(0.9, 0.999)),
        run=Run(steps=run.steps, groups=run.groups, attempts=run.attempts, seed=seed),
    )


async def _rewards(run: CurveSettings, seed: int) -> list[float]:
    async with opened(config(run, seed)) as parts:
        collector, mixture = parts.collector("train", run.attempts, seed), parts.mixture()
        policy = parts.policy(parts.config.optimizer, run.steps)
        means = []
        for step in range(run.steps):
            harvest = await collector.collect(mixture.draw(run.groups))
            values = [value for group in harvest.groups for value in group.values]
            means.append(sum(values) / len(values))
            await learn(parts, policy, mixture, harvest)
            await parts.engine.load(policy.weights(), version=step + 1)
        return means
