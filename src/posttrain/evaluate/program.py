"""Held-out evaluation: sample, judge, and sum up by domain and task."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from posttrain.assembly import Evaluation, Parts
from posttrain.curriculum.mixture import Entry
from posttrain.errors import InputError
from posttrain.measures.constant import Constant, best_constant, candidates
from posttrain.measures.report import DomainScores, Scores
from posttrain.protocols import Draw
from posttrain.rollouts.collect import Collector
from posttrain.rollouts.draw import made
from posttrain.rollouts.judge import Quotas, judge
from posttrain.runtime.inline import Aside
from posttrain.types import Group, Message, Reward, Split, Task, Trajectory, Turn, Unjudged

TASKS_PER_WAVE = 64
NUM_CONSTANT_TASKS = 200
MAX_REPEATS = 8
"""How many tasks are looked at for each one wanted, where a domain repeats its prompts."""


async def evaluate(parts: Parts, label: str, evaluation: Evaluation, say: Callable[[str], None]) -> Scores:
    """Return the scores of the engine's current weights on held-out tasks of every domain.

    Tasks and sampling keys depend on the configuration only, so two policies meet the same tasks with
    the same random numbers. Attempts without a verdict are left out of the scores and counted.
    """
    collector = parts.collector("eval", evaluation.attempts, parts.config.run.seed)
    draws = [draw async for draw in _draws(parts.entries, evaluation.tasks, parts.aside)]
    groups: list[Group] = []
    started = time.perf_counter()
    for first in range(0, len(draws), TASKS_PER_WAVE):
        harvest = await collector.collect(draws[first : first + TASKS_PER_WAVE])
        groups.extend(harvest.groups)
        for draw in harvest.too_long:
            say(f"left out: the prompt of task {draw.task.id} fills the context")
        done, seconds = min(first + TASKS_PER_WAVE, len(draws)), time.perf_counter() - started
        say(f"evaluating {label}: {done}/{len(draws)} tasks, {seconds:.0f} s")
    scores = {
        e.domain.name: _scores(e, [g for g in groups if g.task.domain == e.domain.name])
        for e in parts.entries
    }
    return Scores(label, scores)


async def with_constants(
    scores: Scores, parts: Parts, evaluation: Evaluation, say: Callable[[str], None] = lambda _: None
) -> Scores:
    """Return the scores with what the best constant answer of each domain would earn on the same tasks.

    Answers are chosen among gold answers; a domain without any has no such figure.
    """
    collector = parts.collector("eval", 1, 0)
    found: dict[str, Constant | None] = {}
    for number, entry in enumerate(parts.entries, start=1):
        say(f"best constant answer: {entry.domain.name}, {number}/{len(parts.entries)} domains")
        found[entry.domain.name] = await _constant(collector, entry, evaluation.tasks)
    known = {name: constant.interval.mean for name, constant in found.items() if constant is not None}
    return replace(scores, constants=known)


def distinct_tasks(entry: Entry, split: Split, wanted: int) -> list[Task]:
    """Return up to `wanted` tasks with different prompts; fewer where the domain has no more of them.

    Raises InputError where two of them share an id, by which attempts are counted together.
    """
    size = entry.domain.size(split, entry.level)
    found: dict[tuple[Message, ...], Task] = {}
    for index in range(min(wanted * MAX_REPEATS, wanted * MAX_REPEATS if size is None else size)):
        task = entry.domain.task(split, entry.level, index)
        found.setdefault(task.prompt, task)
        if len(found) == wanted:
            break
    ids = Counter(task.id for task in found.values())
    for name, count in ids.items():
        if count > 1:
            raise InputError(
                f"domain {entry.domain.name!r}: {count} different {split} tasks have the id {name!r}. "
                "Give each task an id of its own, such as one made of split, level and index."
            )
    return list(found.values())


async def _tasks(entry: Entry, split: Split, wanted: int, aside: Aside) -> list[Task]:
    hint = "mend it; `posttrain check` runs a domain's contract."
    what = f"making {split} tasks of {entry.domain.name!r}"
    return await made(what, lambda: distinct_tasks(entry, split, wanted), aside, hint)


async def _draws(entries: Sequence[Entry], tasks: int, aside: Aside) -> AsyncIterator[Draw]:
    for number, entry in enumerate(entries):
        for index, task in enumerate(await _tasks(entry, "eval", tasks, aside)):
            yield Draw(number * 1_000_000 + index, entry.domain, task)


def _scores(entry: Entry, groups: Sequence[Group]) -> DomainScores:
    threshold = entry.domain.success
    return DomainScores(
        by_task={g.task.id: tuple(float(value >= threshold) for value in g.values) for g in groups},
        num_unjudged=sum(isinstance(verdict, Unjudged) for g in groups for verdict in g.verdicts),
        num_truncated=sum(t.stop in ("length", "context") for g in groups for t in g.trajectories),
    )


async def _constant(collector: Collector, entry: Entry, tasks: int) -> Constant | None:
    train = await _tasks(entry, "train", NUM_CONSTANT_TASKS, collector.aside)
    if not any("answer" in task.reference for task in train):
        return None
    held_out = await _tasks(entry, "eval", tasks, collector.aside)
    asked = [(task, answer) for answer in candidates(train) for task in [*train, *held_out]]
    quotas = collector.quotas({entry.domain.name})
    values = await asyncio.gather(*(_earned(quotas, entry, task, answer) for task, answer in asked))
    earned = {(task.id, answer): value for (task, answer), value in zip(asked, values, strict=True)}
    return best_constant(train, held_out, lambda task, answer: earned[task.id, answer])


async def _earned(quotas: Quotas, entry: Entry, task: Task, answer: str) -> float:
    """Return 1.0 where the constant answer would succeed at the task."""
    prompt, said = Turn(task.prompt[-1], ()), Turn(Message("assistant", answer), (), ())
    attempt = Trajectory(task, (prompt, said), "stop")
    verdict = await judge(entry.domain, attempt, quotas)
    return float(isinstance(verdict, Reward) and verdict.value >= entry.domain.success)
