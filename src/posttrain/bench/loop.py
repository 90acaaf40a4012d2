"""Measure one step of reinforcement learning: our loop beside TRL's GRPOTrainer, step by step in turn.

Same model, prompts, LoRA, number format, threads and number of attempts; every attempt has the same
number of tokens, for both sides ignore stop tokens. The gradients are compared in `agreement.py`.
"""

from __future__ import annotations

import os
import random
from dataclasses import asdict, dataclass, replace

from posttrain.bench.agreement import agree
from posttrain.bench.child import Child, Program
from posttrain.bench.overlay import Overlay, peer_script
from posttrain.bench.sides import DEFAULTS, Measured, Pair, Side
from posttrain.bench.steps import Facts, Step, StepSettings
from posttrain.errors import RunFailed
from posttrain.models.dtype import DeviceName, DtypeName


@dataclass(frozen=True, slots=True)
class Workload:
    """What a step works on; `micro_batches` are the rows that the peer's sweep takes without checkpointing.

    `token_budget` is our micro-batch (None: the learner's default).
    """

    prompts: int = 8
    attempts: int = 8
    tokens: int = 64
    terms: int = 4
    rank: int = 16
    learning_rate: float = 1e-5
    micro_batches: tuple[int, ...] = (4, 8, 16)
    token_budget: int | None = None
    warmups: int = 1
    repetitions: int = 3

    def texts(self) -> tuple[str, ...]:
        """Return the users' messages, a third of them shorter and a third longer than `terms` numbers."""
        chance = random.Random(0)
        counts = [self.terms + (i % 3 - 1) * (self.terms // 3) for i in range(self.prompts)]
        sums = (", ".join(str(chance.randrange(10, 1000)) for _ in range(count)) for count in counts)
        return tuple(f"Add these numbers and give only the total: {numbers}." for numbers in sums)


QUICK = Workload(prompts=2, attempts=2, tokens=4, terms=3, micro_batches=(2,), repetitions=1)
"""For tests: the same measurement in seconds, meaningless as a figure."""


@dataclass(frozen=True, slots=True)
class Place:
    """The model (a folder that transformers loads), and what both sides run it with."""

    model: str
    dtype: DtypeName
    device: DeviceName = "auto"
    threads: int = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(place: Place, workload: Workload, trl: Overlay | None) -> Measured:
    """Return seconds and peak memory of a step of ours, and of TRL where it is given.

    Run it alone on the machine: another busy process slows both, not equally.
    """
    settings = _settings(place, workload)
    with Child(_ours(settings, workload), Facts, Step) as ours:
        _steps(ours, workload.warmups)
        if trl is None:
            alone = _steps(ours, workload.repetitions)
            return Measured(settings, Side("ours", ours.facts, alone), ())
        pairs = tuple(_in_turn(ours, peer, workload) for peer in _peers(settings, workload, trl))
    steps = tuple(step for pair in pairs for step in pair.ours.steps)
    agreements = agree(place.model, trl, threads=place.threads)
    return Measured(settings, Side("ours", ours.facts, steps), pairs, tuple(agreements))


def _settings(place: Place, workload: Workload) -> StepSettings:
    return StepSettings(
        model=place.model,
        dtype=place.dtype,
        device=place.device,
        threads=place.threads,
        prompts=workload.texts(),
        attempts=workload.attempts,
        tokens=workload.tokens,
        rank=workload.rank,
        alpha=2 * workload.rank,
        learning_rate=workload.learning_rate,
        seed=0,
        max_steps=(workload.warmups + workload.repetitions) * (1 + len(workload.micro_batches)) + 1,
    )


def _ours(settings: StepSettings, workload: Workload) -> Program:
    own = replace(settings, micro_batch=workload.token_budget)
    return Program("ours", "posttrain.bench.ours", asdict(own), settings.threads)


def _peers(settings: StepSettings, workload: Workload, trl: Overlay) -> list[Program]:
    sweep = {
        f"TRL, no checkpointing, {rows} rows": replace(settings, micro_batch=rows, checkpointing=False)
        for rows in workload.micro_batches
    }
    script = str(peer_script("trl_step.py"))
    return [
        Program(name, script, asdict(own), settings.threads, (trl.folder,))
        for name, own in {DEFAULTS: settings, **sweep}.items()
    ]


def _steps(child: Child[Facts, Step], count: int) -> tuple[Step, ...]:
    return tuple(child.step() for _ in range(count))


def _in_turn(ours: Child[Facts, Step], program: Program, workload: Workload) -> Pair:
    name = program.name
    with Child(program, Facts, Step) as peer:
        _check_equal(name, ours.facts, peer.facts)
        _steps(peer, workload.warmups)
        turns = [(ours.step(), peer.step()) for _ in range(workload.repetitions)]
        for own, other in turns:
            _check_same_work(name, own, other)
        return Pair(
            Side("ours", ours.facts, tuple(own for own, _ in turns)),
            Side(name, peer.facts, tuple(other for _, other in turns)),
        )


def _check_equal(name: str, ours: Facts, peer: Facts) -> None:
    for what in ("torch", "num_trainable", "rows", "threads"):
        if getattr(ours, what) != getattr(peer, what):
            raise RunFailed(
                f"{name} has {what} = {getattr(peer, what)}, ours {getattr(ours, what)}: no fair comparison. "
                "Choose prompts × attempts that the micro-batches divide."
            )


def _check_same_work(name: str, ours: Step, peer: Step) -> None:
    if (ours.prompts, ours.num_tokens) != (peer.prompts, peer.num_tokens):
        raise RunFailed(
            f"{name} sampled {peer.num_tokens} tokens after prompts {peer.prompts[:8]}, "
            f"ours {ours.num_tokens} after {ours.prompts[:8]}: the two did not do the same work"
        )
