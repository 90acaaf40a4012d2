"""The contract of a domain: pure tasks, disjoint splits, a verifier that tells right from wrong.

Run it on your own: `check_domain(my_domain)` gives what is broken, or nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Sequence

from posttrain.contracts.finding import Finding
from posttrain.protocols import Sandbox
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory, Turn

SPLITS: tuple[Split, ...] = ("train", "eval")
WRONG_ANSWERS = ("", "I do not know", " ".join(map(str, range(200))), "%$ §", "[" * 200)
"""Answers that must not succeed: none, a refusal, a dump of candidates, garbage, hostile nesting."""


def check_domain(
    domain: Domain,
    *,
    num_tasks: int = 8,
    levels: Sequence[int] | None = None,
    wrong_answers: Sequence[str] = WRONG_ANSWERS,
    sandbox: Sandbox | None = None,
) -> list[Finding]:
    """Return every broken rule over the first tasks of each split and level.

    A sandbox is needed only by domains that use one. The gold answer is looked for in
    `reference["answer"]`; without it, only the wrong answers are tried. It runs an event loop of its own.
    """
    findings: list[Finding] = []
    for level in range(domain.levels) if levels is None else levels:
        tasks = {split: _tasks(domain, split, level, num_tasks) for split in SPLITS}
        for split, some in tasks.items():
            if not some:
                findings.append(Finding("has tasks", f"no {split} tasks at level {level}"))
            findings += [
                f for index, task in enumerate(some) for f in _task_findings(domain, task, split, index)
            ]
        findings += _overlaps(tasks["train"], tasks["eval"])
        some = [task for split in SPLITS for task in tasks[split]]
        findings += asyncio.run(_verdict_findings(domain, some, wrong_answers, sandbox or ScriptedSandbox()))
    return findings


def attempt(task: Task, answer: str) -> Trajectory:
    """Return a one-turn attempt that gave this answer, with made-up tokens."""
    asked = "\n".join(message.content for message in task.prompt)
    prompt = Turn(Message("user", asked), tokens=(0,))
    reply = Turn(Message("assistant", answer), tokens=(1,), logprobs=(0.0,), version=0)
    return Trajectory(task, (prompt, reply), "stop")


def _tasks(domain: Domain, split: Split, level: int, count: int) -> list[Task]:
    size = domain.size(split, level)
    return [domain.task(split, level, index) for index in range(count if size is None else min(count, size))]


def _task_findings(domain: Domain, task: Task, split: Split, index: int) -> Iterator[Finding]:
    if domain.task(split, task.level, index) != task:
        yield Finding("task is pure", f"{task.id} differs when it is made again")
    if task.domain != domain.name:
        yield Finding("task names its domain", f"{task.id} says {task.domain!r}, the domain {domain.name!r}")
    if not task.prompt or not any(message.content.strip() for message in task.prompt):
        yield Finding("prompt is not empty", task.id)
    try:
        json.dumps([dict(task.reference), dict(task.setup), [dict(t) for t in task.tools]], allow_nan=False)
    except (TypeError, ValueError) as error:
        yield Finding("task is plain JSON", f"{task.id}: {error}")


def _overlaps(train: Sequence[Task], held_out: Sequence[Task]) -> Iterator[Finding]:
    prompts = {task.prompt: task.id for task in train}
    ids = {task.id for task in train}
    for task in held_out:
        if task.prompt in prompts:
            yield Finding("splits are disjoint", f"{task.id} asks the same as {prompts[task.prompt]}")
        if task.id in ids:
            yield Finding("splits are disjoint", f"{task.id} is the id of a train task too")


async def _verdict_findings(
    domain: Domain, tasks: Sequence[Task], wrong_answers: Sequence[str], sandbox: Sandbox
) -> list[Finding]:
    findings: list[Finding] = []
    for task in tasks:
        gold = task.reference.get("answer")
        if gold is not None:
            reward = await domain.verify(attempt(task, str(gold)), sandbox, {})
            findings += _reward_findings(task, reward, str(gold))
            if reward.value < domain.success:
                findings.append(Finding("gold answer succeeds", f"{task.id}: {gold!r} earns {reward.value}"))
        for answer in wrong_answers:
            if answer == gold:
                continue
            reward = await domain.verify(attempt(task, answer), sandbox, {})
            findings += _reward_findings(task, reward, answer)
            if reward.value >= domain.success:
                findings.append(
                    Finding("wrong answer fails", f"{task.id}: {answer[:40]!r} earns {reward.value}")
                )
    return findings


def _reward_findings(task: Task, reward: Reward, answer: str) -> Iterator[Finding]:
    numbers = (reward.value, *reward.parts.values(), *reward.by_turn)
    if not all(math.isfinite(number) for number in numbers):
        yield Finding("reward is finite", f"{task.id}: {answer[:40]!r} earns {reward}")
