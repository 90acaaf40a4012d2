"""The rules that a domain's tasks keep: pure, apart by split, plain JSON, and silent about their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from posttrain.contracts.leak import leaking
from posttrain.contracts.outcome import Rules
from posttrain.runtime.inline import DeadlineExceeded, within
from posttrain.types import Domain, Split, Task

T = TypeVar("T")
SPLITS: tuple[Split, ...] = ("train", "eval")
LATER = 1_000_000
"""An index far into training: finite domains begin again after `size` tasks."""


def inspect_tasks(
    domain: Domain, level: int, count: int, rules: Rules, deadline_seconds: float
) -> dict[Split, list[Task]]:
    """Return the first `count` tasks of each split at a level, what was seen of them added to `rules`."""
    made: dict[Split, list[Task]] = {"train": [], "eval": []}
    for split in SPLITS:
        call = f"{domain.name}.size({split!r}, {level})"
        sized = _attempted("size", partial(domain.size, split, level), call, rules, deadline_seconds)
        if sized is None:
            continue
        size = sized.value
        fits = size is None or (isinstance(size, int) and size > 0)
        rules.expect("has tasks", fits, f"no {split} tasks at level {level}: size gave {size!r}", "splits")
        for index in range(count if size is None else min(count, size)) if fits else ():
            task = _task(domain, split, level, index, rules, deadline_seconds)
            made[split] += [] if task is None else [task]
        if made[split]:
            _inspect(domain, split, level, made[split], rules, deadline_seconds)
            for index in [LATER] if size is None else [size, LATER]:
                later = _task(domain, split, level, index, rules, deadline_seconds)
                seen = f"there is no {split} task {index} at level {level}; use index % size"
                rules.expect("tasks never run out", later is not None, seen, "late indices")
    _overlaps(made["train"], made["eval"], rules)
    found = leaking(made["train"] + made["eval"])
    if any(task.reference for task in (*made["train"], *made["eval"])):
        rules.expect("prompts keep the answer back", not found, found, "levels")
    return made


@dataclass(frozen=True, slots=True)
class _Given(Generic[T]):
    value: T


def _attempted(
    what: str, work: Callable[[], T], call: str, rules: Rules, deadline_seconds: float
) -> _Given[T] | None:
    """Return what a user's function gives; None where it raises or hangs, which breaks a rule."""
    seen = ""
    given: _Given[T] | None = None
    try:
        given = _Given(within(deadline_seconds, work))
    except DeadlineExceeded as late:
        seen = f"{call}: {late}"
    except (Exception, SystemExit) as error:  # a user's domain may raise anything
        seen = f"{call} raised {type(error).__name__}: {error}"
    rules.expect(f"{what} can be called", not seen, seen, "calls")
    return given


def _task(
    domain: Domain, split: Split, level: int, index: int, rules: Rules, deadline_seconds: float
) -> Task | None:
    call = f"{domain.name}.task({split!r}, {level}, {index})"
    made = _attempted("task", partial(domain.task, split, level, index), call, rules, deadline_seconds)
    if made is None:
        return None
    found: object = made.value
    rules.expect("task is a Task", isinstance(found, Task), f"{call} gave {type(found).__name__}", "tasks")
    return found if isinstance(found, Task) else None


def _inspect(
    domain: Domain, split: Split, level: int, tasks: Sequence[Task], rules: Rules, deadline_seconds: float
) -> None:
    # In reverse, so that a generator that walks on from call to call is noticed.
    for index, task in reversed(list(enumerate(tasks))):
        again = _task(domain, split, level, index, rules, deadline_seconds)
        seen = f"{task.id} differs when it is made again"
        rules.expect("task is pure", again == task, seen, "tasks made twice")
    for task in tasks:
        seen = f"{task.id} says {task.domain!r}, the domain {domain.name!r}"
        rules.expect("task names its domain", task.domain == domain.name, seen, "tasks")
        asked = any(message.content.strip() for message in task.prompt)
        rules.expect("prompt is not empty", asked, task.id, "tasks")
        odd = _not_json(task)
        rules.expect("task is plain JSON", not odd, f"{task.id}: {odd}", "tasks")
    prompts = dict(reversed([(task.id, task.prompt) for task in tasks]))
    for task in tasks:
        alone = prompts[task.id] == task.prompt
        rules.expect("ids tell tasks apart", alone, f"two {split} tasks are named {task.id}", "tasks")


def _not_json(task: Task) -> str:
    """Say why JSON cannot hold a task's data, or ''."""
    data = [dict(task.reference), dict(task.setup), [dict(tool) for tool in task.tools]]
    try:
        text = json.dumps(data, allow_nan=False)
    except (TypeError, ValueError) as error:
        return str(error)
    if json.dumps(json.loads(text)) != text or not _text_keys(data):
        return "it changes on its way through JSON; keys must be text"
    return ""


def _text_keys(data: object) -> bool:
    if isinstance(data, dict):
        return all(isinstance(key, str) for key in data) and all(map(_text_keys, data.values()))
    return all(map(_text_keys, data)) if isinstance(data, list | tuple) else True


def _overlaps(train: Sequence[Task], held_out: Sequence[Task], rules: Rules) -> None:
    prompts = {task.prompt: task.id for task in train}
    ids = {task.id for task in train}
    for task in held_out:
        same = prompts.get(task.prompt)
        rules.expect("splits are disjoint", same is None, f"{task.id} asks the same as {same}", "eval tasks")
        if task.id in ids:
            rules.expect(
                "splits are disjoint", False, f"{task.id} is the id of a train task too", "eval tasks"
            )
