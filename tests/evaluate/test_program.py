"""Which tasks an evaluation takes: different ones, as many as there are, each under an id of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from posttrain.curriculum.mixture import Entry
from posttrain.errors import InputError
from posttrain.evaluate.program import distinct_tasks
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory


def entry_of(text: Callable[[int], str], name: Callable[[int], str], size: int | None = None) -> Entry:
    def task(split: Split, level: int, index: int) -> Task:
        return Task(name(index), "d", level, (Message("user", text(index)),), {})

    async def verify(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1.0)

    return Entry(Domain("d", lambda split, level: size, task, verify))


def test_tasks_with_a_prompt_seen_before_are_passed_over() -> None:
    entry = entry_of(lambda i: f"question {i // 3}", lambda i: f"t{i}")
    assert [task.id for task in distinct_tasks(entry, "eval", 3)] == ["t0", "t3", "t6"]


def test_a_domain_with_few_prompts_gives_what_it_has_and_ends() -> None:
    assert len(distinct_tasks(entry_of(lambda i: f"question {i % 2}", lambda i: f"t{i}"), "eval", 50)) == 2
    assert len(distinct_tasks(entry_of(str, lambda i: f"t{i}", size=7), "eval", 50)) == 7


def test_two_tasks_of_one_id_are_refused_and_named() -> None:
    with pytest.raises(InputError, match="domain 'd': 3 different eval tasks have the id 'same'"):
        distinct_tasks(entry_of(str, lambda i: "same"), "eval", 3)
