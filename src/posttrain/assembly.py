"""Config → live parts: the one place that opens and closes what a run works with."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from posttrain import config as toml
from posttrain.algorithms import ALGORITHMS
from posttrain.chat.template import Chat
from posttrain.curriculum.mixture import Entry, Mixture
from posttrain.domains import DOMAINS
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.errors import ConfigError
from posttrain.models.language_model import LanguageModel
from posttrain.models.load import Model, load
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.protocols import Algorithm, Draw, Purpose, Sampling
from posttrain.rollouts.collect import Collector
from posttrain.rollouts.judge import Deadlines
from posttrain.runtime.inline import Aside
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Group, Reward, Split, Trajectory

DOMAIN_KEYS = ("level", "weight", "name")
NUM_CHECKED_PROMPTS = 4


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
    """A complete run, as its file says it; `algorithm.use` is "grpo" unless it says otherwise."""

    domains: tuple[Mapping[str, Any], ...]
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


def domains(config: Config, source: str = "config") -> tuple[Entry, ...]:
    """Return the mixture's entries, each domain under its own name and with a valid level."""
    entries = tuple(_entry(spec, source, f"domains.{i}") for i, spec in enumerate(config.domains))
    names = [entry.domain.name for entry in entries]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ConfigError(
                f"the name {name!r} is taken",
                key=f"domains.{i}.name",
                source=source,
                hint="Give it another `name`.",
            )
    return entries


def _entry(spec: Mapping[str, Any], source: str, key: str) -> Entry:
    own = {name: value for name, value in spec.items() if name not in DOMAIN_KEYS}
    domain = toml.construct(own, DOMAINS, source=source, key=key, expected=Domain)
    if "name" in spec:
        domain = _renamed(domain, str(spec["name"]))
    level, weight = spec.get("level", 0), spec.get("weight", 1.0)
    if not isinstance(level, int) or not 0 <= level < domain.levels:
        raise ConfigError(
            f"{domain.name} has no level {level!r}",
            key=f"{key}.level",
            source=source,
            hint=f"It has 0 to {domain.levels - 1}.",
        )
    if not isinstance(weight, int | float) or weight <= 0:
        raise ConfigError(f"{weight!r} is not a positive number", key=f"{key}.weight", source=source)
    splits: tuple[Split, ...] = ("train", "eval")
    for split in splits:
        if domain.size(split, level) == 0:
            raise ConfigError(f"{domain.name} has no {split} task at level {level}", key=key, source=source)
    return Entry(domain, level, float(weight))


def _renamed(domain: Domain, name: str) -> Domain:
    def task(split: Split, level: int, index: int) -> Any:
        return replace(domain.task(split, level, index), domain=name)

    return replace(domain, name=name, task=task)


def algorithm(config: Config, source: str = "config") -> Algorithm:
    """Return the algorithm, checked to find a signal in as many attempts as the run takes."""
    algorithms: type[Algorithm] = Algorithm
    chosen = toml.construct(
        {"use": "grpo", **config.algorithm}, ALGORITHMS, source=source, key="algorithm", expected=algorithms
    )
    entry = domains(config, source)[0]
    attempt = Trajectory(entry.domain.task("train", entry.level, 0), (), "stop")
    verdicts = tuple(Reward(float(i == 0)) for i in range(config.run.attempts))
    if not chosen.keeps(Group(0, attempt.task, (attempt,) * len(verdicts), verdicts)):
        raise ConfigError(
            f"{config.run.attempts} attempt(s) at a task give {type(chosen).__name__} nothing to compare",
            key="run.attempts",
            source=source,
            hint="Set it to 2 or more.",
        )
    return chosen


@dataclass(frozen=True, slots=True)
class Parts:
    """The live parts of a run; they belong to `opened`, which closes them."""

    config: Config
    model: LanguageModel
    chat: Chat
    engine: TorchEngine
    entries: tuple[Entry, ...]
    algorithm: Algorithm
    sandbox: ScriptedSandbox
    aside: Aside

    def policy(self, optimizer: AdamW, total_steps: int) -> Policy:
        """Return a learner over the model's own weights, with fresh optimizer state."""
        return Policy(self.model, self.config.learner, optimizer, total_steps)

    def mixture(self, start: int = 0) -> Mixture:
        """Return a fresh mixture over the training tasks, from task index `start` on."""
        return Mixture(self.entries, start=start)

    def collector(self, purpose: Purpose, attempts: int, seed: int) -> Collector:
        """Return what samples and judges for `purpose`."""
        return Collector(
            engine=self.engine,
            chat=self.chat,
            sandbox=self.sandbox,
            aside=self.aside,
            sampling=self.config.sampling,
            deadlines=self.config.deadlines,
            attempts=attempts,
            context=self.model.context,
            seed=seed,
            purpose=purpose,
        )


@asynccontextmanager
async def opened(config: Config, source: str = "config") -> AsyncIterator[Parts]:
    """Open the parts of `config`, check that prompts fit, and close everything at the end."""
    entries, chosen = domains(config, source), algorithm(config, source)
    model = load(config.model, config.run.seed)
    chat = Chat(model.tokenizer, model.stop_tokens)
    aside = Aside()
    parts = Parts(
        config, model, chat, TorchEngine(model, config.engine), entries, chosen, ScriptedSandbox(), aside
    )
    try:
        _check_prompts(parts, source)
        yield parts
    finally:
        aside.close()


def _check_prompts(parts: Parts, source: str) -> None:
    collector = parts.collector("train", 1, 0)
    for i, entry in enumerate(parts.entries):
        for index in range(NUM_CHECKED_PROMPTS):
            task = entry.domain.task("train", entry.level, index)
            length = len(collector.prompt(Draw(0, entry.domain, task)).tokens)
            if length >= parts.model.context:
                raise ConfigError(
                    f"task {task.id} of {entry.domain.name} has a prompt of {length} tokens, "
                    f"the model's context is {parts.model.context}",
                    key=f"domains.{i}",
                    source=source,
                    hint="Choose an easier level or a model with a longer context.",
                )


def peak_memory_bytes() -> int:
    """Return the most memory this process has held (device memory where there is a GPU)."""
    import resource

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
