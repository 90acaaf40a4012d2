"""Supervised warm-up: the same batch, the same update, on groups of one demonstration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from posttrain.algorithms.sft import SFT
from posttrain.assembly import Parts
from posttrain.batch import Batch
from posttrain.policy.policy import Policy
from posttrain.policy.stats import UpdateStats
from posttrain.rollouts.demonstrate import demonstrated
from posttrain.rollouts.draw import drawn

TASK_OFFSET = 1_000_000
"""Warm-up takes training tasks from here on, RL from 0: endless domains then share none of them."""


@dataclass(frozen=True, slots=True)
class SftStep:
    """What one step of warm-up did; `seconds` is its wall time."""

    step: int
    stats: UpdateStats
    seconds: float


async def warm_up(parts: Parts, report: Callable[[SftStep], None], interrupted: asyncio.Event) -> Policy:
    """Train on gold answers for `sft.steps` steps, or until `interrupted` is set; return the policy."""
    settings, algorithm = parts.config.sft, SFT()
    policy = parts.policy(settings.optimizer, settings.steps)
    mixture = parts.mixture(start=TASK_OFFSET)
    for step in range(1, settings.steps + 1):
        started = time.perf_counter()
        draws = await drawn(mixture, settings.demonstrations, parts.aside)
        groups = [await demonstrated(draw, parts.chat, parts.aside) for draw in draws]
        batch = Batch.of(groups)
        batch = replace(batch, advantages=algorithm.advantages(batch))
        stats = await asyncio.to_thread(policy.update, batch, algorithm)
        report(SftStep(step, stats, time.perf_counter() - started))
        if interrupted.is_set():
            break
    return policy
