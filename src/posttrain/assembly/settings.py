"""What a run's file may say, with every default, and what no run can mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posttrain import config as toml
from posttrain.engines.torch import Torch
from posttrain.errors import ConfigError
from posttrain.models.load import Model
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner
from posttrain.protocols import Sampling
from posttrain.rollouts.judge import Deadlines
from posttrain.sandbox.local import Local


@dataclass(frozen=True, slots=True)
class Run:
    """How much to do, and how often to save and look."""

    steps: int = 100
    groups: int = 8
    attempts: int = 8
    seed: int = 0
    max_refills: int = 0
    max_staleness: int = 0
    checkpoint_every: int = 20
    keep_checkpoints: int = 2


@dataclass(frozen=True, slots=True)
class Sft:
    """Supervised warm-up on gold answers: `steps` batches of `demonstrations`."""

    steps: int = 12
    demonstrations: int = 32
    optimizer: AdamW = field(default_factory=lambda: AdamW(learning_rate=2e-4))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Held-out measurement: tasks for each domain, attempts for each task."""

    tasks: int = 50
    attempts: int = 4


@dataclass(frozen=True, slots=True)
class Config:
    """A complete run, as its file says it; `algorithm.use` is "grpo" unless it says otherwise.

    `system`, if not empty, is the system message of every task that brings none; `tool_syntax` says how
    calls of tools are written, where the model's chat template does not tell.
    """

    domains: tuple[Mapping[str, Any], ...]
    system: str = ""
    tool_syntax: str = ""
    model: Model = field(default_factory=Model)
    engine: Torch = field(default_factory=Torch)
    sampling: Sampling = field(default_factory=Sampling)
    algorithm: Mapping[str, Any] = field(default_factory=dict)
    optimizer: AdamW = field(default_factory=AdamW)
    learner: Learner = field(default_factory=Learner)
    run: Run = Run()
    sft: Sft = Sft()
    evaluation: Evaluation = Evaluation()
    deadlines: Deadlines = field(default_factory=Deadlines)
    sandbox: Local = field(default_factory=Local)


def read(path: Path, overrides: Sequence[str] = (), *, training: bool = True) -> Config:
    """Return the configuration in `path` with dotted overrides applied; ConfigError where it is wrong.

    Only what trains needs log-probabilities over the whole vocabulary: without `training`, top_p and
    top_k are free.
    """
    config = toml.build(Config, toml.read(path, overrides), source=str(path))
    for key, value, least in _bounds(config):
        if value < least:
            hint = f"Set it to {least:g} or more." if least else "It cannot be negative."
            raise ConfigError(f"{value} is too small", key=key, source=path, hint=hint)
    for key, number in [
        ("sampling.temperature", config.sampling.temperature),
        ("sampling.top_p", config.sampling.top_p),
        ("deadlines.verify_seconds", config.deadlines.verify_seconds),
        ("deadlines.respond_seconds", config.deadlines.respond_seconds),
    ]:
        if not 0 < number < float("inf"):
            raise ConfigError(f"{number} is not a positive number", key=key, source=path, hint="Raise it.")
    config.sandbox.check(str(path))
    _check_possible(config, path, training)
    return config


def _bounds(config: Config) -> list[tuple[str, int, int]]:
    """Return (key, value, least value allowed) of every count."""
    run, sft, evaluation = config.run, config.sft, config.evaluation
    return [
        ("run.steps", run.steps, 1),
        ("run.groups", run.groups, 1),
        ("run.attempts", run.attempts, 1),
        ("run.max_refills", run.max_refills, 0),
        ("run.checkpoint_every", run.checkpoint_every, 1),
        ("run.keep_checkpoints", run.keep_checkpoints, 2),
        ("sft.steps", sft.steps, 1),
        ("sft.demonstrations", sft.demonstrations, 1),
        ("evaluation.tasks", evaluation.tasks, 1),
        ("evaluation.attempts", evaluation.attempts, 1),
        ("sampling.max_tokens", config.sampling.max_tokens, 1),
        ("sampling.top_k", config.sampling.top_k, 0),
        ("learner.token_budget", config.learner.token_budget, 1),
        ("learner.updates_per_batch", config.learner.updates_per_batch, 1),
        ("deadlines.retries", config.deadlines.retries, 0),
        ("deadlines.in_flight", config.deadlines.in_flight, 1),
        ("deadlines.misses", config.deadlines.misses, 1),
    ]


def _check_possible(config: Config, source: Path, training: bool) -> None:
    sampling = config.sampling
    if training and (sampling.top_p < 1.0 or sampling.top_k > 0):
        raise ConfigError(
            "top_p and top_k change the support: the sampler's log-probabilities would not be the trainer's",
            key="sampling",
            source=source,
            hint="Train with top_p = 1.0 and top_k = 0; `eval` takes both.",
        )
    if config.run.max_staleness != 0:
        raise ConfigError(
            f"{config.run.max_staleness} is not available yet: sampling always uses the newest weights",
            key="run.max_staleness",
            source=source,
            hint="Set it to 0.",
        )
    if not config.domains:
        hint = "Add a [[domains]] table with `use`."
        raise ConfigError("no domain", key="domains", source=source, hint=hint)
