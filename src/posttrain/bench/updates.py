"""Our side of `bench learner`: one optimizer step on random attempts of one shape for each line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import TypeAdapter

from posttrain.algorithms.advantages import over_tokens
from posttrain.algorithms.grpo import GRPO
from posttrain.batch import Batch
from posttrain.bench.engine import SQUARE, matmul_flops
from posttrain.bench.lines import Lines
from posttrain.models.dtype import DeviceName, DtypeName
from posttrain.models.load import Model, load
from posttrain.models.lora import Lora, owned
from posttrain.policy.layout import Kind
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Shape:
    """`groups` prompts of `prompt` tokens, each with `attempts` completions of `completion` tokens."""

    prompt: int
    completion: int
    attempts: int
    groups: int

    @property
    def num_rows(self) -> int:
        return self.groups * self.attempts

    @property
    def num_scored(self) -> int:
        return self.num_rows * self.completion

    @property
    def num_shared(self) -> int:
        """Count the tokens with each prompt once."""
        return self.groups * self.prompt + self.num_scored


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """One process's orders; `layout` is read by ours alone."""

    model: str
    dtype: DtypeName
    device: DeviceName
    threads: int
    shape: Shape
    rank: int
    alpha: int
    token_budget: int
    checkpointing: bool
    layout: Kind


def main(lines: Lines, settings: Mapping[str, Any]) -> None:
    """Answer each line with the time of one update, and the machine's speed right after it."""
    run = TypeAdapter(UpdateSettings).validate_python(settings)
    torch.set_num_threads(run.threads)
    lora = Lora(rank=run.rank, alpha=run.alpha)
    model = load(Model(source=run.model, dtype=run.dtype, device=run.device, lora=lora), seed=0)
    learner = Learner(token_budget=run.token_budget, checkpointing=run.checkpointing, layout=run.layout)
    policy = Policy(model, learner, AdamW(), total_steps=1000)
    batch = attempts(run.shape, model.module.config.vocab_size)
    lines.answer({"num_trainable": sum(p.numel() for _, p in owned(model.module))})
    while lines.wait():
        started, cpu = time.perf_counter(), time.process_time()
        stats = policy.update(batch, GRPO())
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
        assert (stats.num_steps, stats.num_tokens) == (1, run.shape.num_scored), stats.skipped
        peak = matmul_flops(SQUARE, SQUARE, SQUARE, model.dtype, model.device)
        lines.answer(
            {
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "num_tokens": stats.num_tokens,
                "matmul_flops": peak,
            }
        )


def attempts(shape: Shape, vocabulary: int) -> Batch:
    """Return attempts of random tokens with random advantages, as sampled by the current policy."""
    generator = torch.Generator().manual_seed(0)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(vocabulary, (count,), generator=generator).tolist())

    def group(sequence: int) -> Group:
        asked = Turn(Message("user", ""), tokens(shape.prompt))
        task = Task(str(sequence), "random", 0, (asked.message,), {})
        answer, zeros = Message("assistant", ""), (0.0,) * shape.completion
        tried = tuple(
            Trajectory(task, (asked, Turn(answer, tokens(shape.completion), zeros, version=0)), "stop")
            for _ in range(shape.attempts)
        )
        return Group(sequence, task, tried, tuple(Reward(float(i)) for i in range(len(tried))))

    batch = Batch.of([group(sequence) for sequence in range(shape.groups)])
    drawn = torch.randn(batch.num_rows, generator=generator)
    return replace(batch, advantages=over_tokens(drawn, batch.mask))
