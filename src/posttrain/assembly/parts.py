"""Config → live parts: the one place that opens and closes what a run works with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from posttrain import config as toml
from posttrain.algorithms import ALGORITHMS
from posttrain.assembly.domain import attempted, check_domain
from posttrain.assembly.settings import Config
from posttrain.assembly.signal import finds_signal
from posttrain.chat.template import Chat
from posttrain.curriculum.mixture import Entry, Mixture
from posttrain.domains import DOMAINS
from posttrain.engines.torch import TorchEngine
from posttrain.errors import ConfigError
from posttrain.models.language_model import LanguageModel
from posttrain.models.load import load
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Policy
from posttrain.protocols import Algorithm, Draw, Purpose
from posttrain.rollouts.collect import Collector
from posttrain.runtime.inline import Aside
from posttrain.sandbox.local import LocalSandbox
from posttrain.types import Domain, Split

DOMAIN_KEYS = ("level", "weight", "name")
NUM_CHECKED_PROMPTS = 4


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
    what = f"making {own.get('use')!r}"
    domain = attempted(
        what, lambda: toml.construct(own, DOMAINS, source=source, key=key, expected=Domain), source, key
    )
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
    check_domain(domain, level, source, key)
    return Entry(domain, level, float(weight))


def _renamed(domain: Domain, name: str) -> Domain:
    def task(split: Split, level: int, index: int) -> Any:
        return replace(domain.task(split, level, index), domain=name)

    return replace(domain, name=name, task=task)


def algorithm(config: Config, source: str = "config", entries: Sequence[Entry] = ()) -> Algorithm:
    """Return the algorithm, checked to find a signal in as many attempts as the run takes.

    `entries` are the config's domains where they are made already.
    """
    algorithms: type[Algorithm] = Algorithm
    chosen = toml.construct(
        {"use": "grpo", **config.algorithm}, ALGORITHMS, source=source, key="algorithm", expected=algorithms
    )
    entry = (entries or domains(config, source))[0]
    task, attempts = entry.domain.task("train", entry.level, 0), config.run.attempts
    what = f"{type(chosen).__name__}.keeps"
    hint = "Mend the algorithm; `posttrain check` runs its contract."
    if not attempted(what, lambda: finds_signal(chosen, task, attempts), source, "algorithm", hint):
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
    sandbox: LocalSandbox
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
            boxes=self.config.sandbox.num_boxes,
        )


@asynccontextmanager
async def opened(config: Config, source: str = "config") -> AsyncIterator[Parts]:
    """Open the parts of `config`, check that prompts fit, and close everything at the end."""
    entries = domains(config, source)
    chosen = algorithm(config, source, entries)
    sandbox = config.sandbox.lazy(source)
    model = load(config.model, config.run.seed)
    chat = Chat(model.tokenizer, model.stop_tokens, config.system, config.tool_syntax)
    aside, engine = Aside(), TorchEngine(model, config.engine)
    parts = Parts(config, model, chat, engine, entries, chosen, sandbox, aside)
    try:
        _check_prompts(parts, source)
        yield parts
    finally:
        aside.close()
        engine.close()
        await sandbox.close()


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
