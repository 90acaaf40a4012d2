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

    `system`, if not empty, is the system message of every task that brings none.
    """

    domains: tuple[Mapping[str, Any], ...]
    system: str = ""
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


def read(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration in `path` with dotted overrides applied; ConfigError where it is wrong."""
    config = toml.build(Config, toml.read(path, overrides), source=str(path))
    _check(config, str(path))
    return config


def _check(config: Config, source: str) -> None:
    run, sampling = config.run, config.sampling
    for key, value in [
        ("run.steps", run.steps),
        ("run.groups", run.groups),
        ("run.attempts", run.attempts),
        ("run.checkpoint_every", run.checkpoint_every),
        ("sampling.max_tokens", sampling.max_tokens),
        ("sampling.temperature", sampling.temperature),
        ("evaluation.tasks", config.evaluation.tasks),
        ("evaluation.attempts", config.evaluation.attempts),
    ]:
        if value <= 0:
            raise ConfigError(f"{value} is not positive", key=key, source=source, hint="Set it to 1 or more.")
    if sampling.top_p < 1.0 or sampling.top_k > 0:
        raise ConfigError(
            "top_p and top_k change the support: the sampler's log-probabilities would not be the trainer's",
            key="sampling",
            source=source,
            hint="Train with top_p = 1.0 and top_k = 0; `eval` takes both.",
        )
    if run.max_staleness > 0:
        raise ConfigError(
            f"{run.max_staleness} is not available yet: sampling always uses the newest weights",
            key="run.max_staleness",
            source=source,
            hint="Set it to 0.",
        )
    if not config.domains:
        raise ConfigError(
            "no domain", key="domains", source=source, hint="Add a [[domains]] table with `use`."
        )
