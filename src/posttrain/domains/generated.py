"""Endless generated tasks: one reasoning-gym set as a domain, with our own extraction and exact scoring.

Two things differ from the package: an answer earns all or nothing, and the questions of the two splits
are disjoint by content, not only by seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import hashlib
import io
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from posttrain.domains.levels import factory, level_configs
from posttrain.domains.sets import (
    EVALUATES_ANSWERS,
    NO_GOLD,
    NOISY,
    OWN_SCORING,
    SEEDED_WHEN_BUILT,
)
from posttrain.errors import ConfigError, InputError
from posttrain.protocols import Sandbox
from posttrain.rewards.match import exact, extract_answer
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

INSTRUCTION = "Give only the final answer."
_NUM_DRAWS = 64  # a fair split misses 64 times in a row with probability 2**-64
_MAX_CHARACTERS = 2_000  # longer answers never reach a set's own scoring
_MAX_PARTIAL = 0.99  # partial marks must stay below success


def generated(
    set: str, *, name: str = "", instruction: str = INSTRUCTION, partial: bool = False, **config: Any
) -> Domain:
    """Return a domain of endless tasks from one reasoning-gym set.

    Levels are those of the set's curriculum, level 0 the easiest, equal ones merged; `config` are settings of
    the set that hold at every level. `instruction` follows the question; '' leaves it out. With
    `partial`, the set's own partial marks (below 0.99) are paid for answers that are not right.
    Raises ConfigError for an unknown or refused set, and for settings the set rejects.
    """
    configs = level_configs(set, config)
    if partial and set in EVALUATES_ANSWERS:
        raise ConfigError(
            f"the scoring of set {set!r} would execute answers", key="partial", hint="Leave it out."
        )
    source = Source(set, configs, functools.cache(lambda level: _build(set, configs[level], 0)))
    label = name or set

    def task(split: Split, level: int, index: int) -> Task:
        seed, entry = source.draw(split, level, index)
        question = f"{str(entry['question']).strip()}\n{instruction}".strip()
        gold = {} if set in NO_GOLD else {"answer": str(entry["answer"])}
        identity = f"{label}/{split}/{level}/{index}"
        return Task(identity, label, level, (Message("user", question),), {**gold, "seed": seed})

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        gold = str(trajectory.task.reference.get("answer", ""))
        answer = extract_answer(trajectory.answer, num_lines=gold.count("\n") + 1 if gold else 1_000)
        if gold and exact(answer, gold):
            return Reward(1.0, {"exact": 1.0})
        own = await _own_score(source, trajectory.task, answer, partial)
        return Reward(own, {"exact": 0.0, "own": own})

    task("train", 0, 0)  # settings that fail only while a task is made fail here, not in a run
    return Domain(label, lambda split, level: None, task, verify, levels=len(source.configs))


def demonstration(task: Task) -> str:
    """Return the gold answer of a task, the text to imitate in supervised training."""
    if "answer" not in task.reference:
        raise InputError(
            f"task {task.id} has no gold answer to imitate. Leave its domain out of supervised training."
        )
    return str(task.reference["answer"])


def split_of(question: str) -> Split:
    """Return the split that a question belongs to: half of all texts each, by their hash."""
    return "eval" if hashlib.sha256(question.encode()).digest()[0] & 1 else "train"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The entries (question, answer, metadata) of one set, by level and seed."""

    name: str
    configs: tuple[Any, ...]
    built: Callable[[int], Any]

    def draw(self, split: Split, level: int, index: int) -> tuple[int, Mapping[str, Any]]:
        """Return the first entry of this index's own series of seeds that belongs to the split."""
        failure: Exception | None = None
        for attempt in range(_NUM_DRAWS):
            seed = _seed(self.name, split, level, index, attempt)
            try:
                entry = self.entry(level, seed)
            except Exception as error:  # foreign generators give up on some seeds in many ways
                failure = error
                continue
            if split_of(str(entry["question"])) == split:
                return seed, entry
        reason = (
            f": {failure}" if failure else " gives too few different questions to hold train and eval apart"
        )
        hint = "Change its settings or choose another set."
        raise ConfigError(f"set {self.name!r} with these settings{reason}", key="use", hint=hint)

    def entry(self, level: int, seed: int) -> Mapping[str, Any]:
        """Return the entry that the set makes from a seed."""
        with _quiet(seed) if self.name in NOISY else contextlib.nullcontext():
            entry: Mapping[str, Any] = self.dataset(level, seed)[0]
        return entry

    def dataset(self, level: int, seed: int) -> Any:
        """Return the set seeded with `seed`; a shallow copy of one that is built once per level."""
        if self.name in SEEDED_WHEN_BUILT:
            return _build(self.name, self.configs[level], seed)
        seeded = copy.copy(self.built(level))
        seeded.seed = seed
        return seeded


def _build(name: str, config: Any, seed: int) -> Any:
    return factory().DATASETS[name][0](dataclasses.replace(config, seed=seed, size=1))


def _seed(*parts: object) -> int:
    """Return 31 bits that depend on all parts; numpy's generators accept no more than 32."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


async def _own_score(source: Source, task: Task, answer: str, partial: bool) -> float:
    """Return what the set's own scoring grants: full marks, or partial ones where asked for."""
    form = OWN_SCORING.get(source.name)
    if form is None and not partial:
        return 0.0
    if len(answer) > _MAX_CHARACTERS or (form is not None and not re.fullmatch(form, answer, re.DOTALL)):
        return 0.0
    seed = int(task.reference["seed"])
    entry = source.entry(task.level, seed)
    # In a thread, so that a deadline upstream can pass over a scorer that hangs.
    score = float(await asyncio.to_thread(source.dataset(task.level, seed).score_answer, answer, entry))
    if form is not None and score >= 1.0:
        return 1.0
    return min(max(score, 0.0), _MAX_PARTIAL) if partial else 0.0


@contextlib.contextmanager
def _quiet(seed: int) -> Iterator[None]:
    """Swallow prints, and lend the global generators a state of our own, put back afterwards."""
    import numpy

    saved, saved_numpy = random.getstate(), numpy.random.get_state()
    random.seed(seed)
    numpy.random.seed(seed)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        random.setstate(saved)
        numpy.random.set_state(saved_numpy)
