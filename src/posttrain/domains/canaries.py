"""Tasks that nobody can solve, mixed into a domain: whoever is paid for one has found a hole in the judge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError
from posttrain.protocols import Case, Sandbox
from posttrain.types import JSON, Domain, Reward, Split, Task, Trajectory

CANARY = "canary"
"""The key of a task's reference, and the flag of a rewarded attempt at one."""


def with_canaries(domain: Domain, rate: float, *, key: str = "canaries") -> Domain:
    """Return a domain a share of whose training tasks cannot be solved, chosen by a hash of key and index.

    Prompts stay as they are, so nothing tells a canary from a task. What is expected is text that exists
    nowhere else, so being paid for it is an alarm: flag `canary`. Raises ConfigError for a rate below 0 or
    from 1 on, and for tasks that hold neither a programming problem nor an answer.
    """
    if not 0 <= rate < 1:
        raise ConfigError(f"{rate} is no share of the tasks", key="rate", hint="Set it to 0 … 0.5.")

    def task(split: Split, level: int, index: int) -> Task:
        own = domain.task(split, level, index)
        name = f"{key}/{domain.name}/{level}/{index}"
        return canary(own, name) if split == "train" and _fraction(name) < rate else own

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        reward = await domain.verify(trajectory, sandbox, files)
        if not is_canary(trajectory.task):
            return reward
        alarm = (CANARY,) if reward.value > 0 else ()
        return replace(reward, flags=(*reward.flags, *alarm), parts={**reward.parts, CANARY: 1.0})

    return replace(domain, task=task, verify=verify)


def canary(task: Task, name: str) -> Task:
    """Return a task with the same prompt that expects what nobody can know."""
    if "problem" in task.reference:
        problem = Problem.of(task)
        hidden = tuple(_unknowable(case, f"{name}/{i}") for i, case in enumerate(problem.hidden))
        own: Mapping[str, JSON] = replace(problem, hidden=hidden).reference()
    elif isinstance(task.reference.get("answer"), str):
        own = {"answer": _token(name)}
    else:
        raise ConfigError(
            f"task {task.id!r} holds neither a programming problem nor an answer, so it cannot be a canary",
            key="canaries",
            hint="Leave canaries out, or put reference['answer'] in.",
        )
    return replace(task, id=f"{task.id}/canary", reference={**task.reference, **own, CANARY: True})


def is_canary(task: Task) -> bool:
    """Tell whether a task is one that cannot be solved."""
    return bool(task.reference.get(CANARY))


def _unknowable(case: Case, name: str) -> Case:
    token: Any = _token(name)
    return replace(case, expected=token.encode() if case.function is None else token, comparator="exact")


def _token(name: str) -> str:
    return hashlib.sha256(f"unknowable/{name}".encode()).hexdigest()


def _fraction(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2.0**64
