"""Any domain of programming problems, with its rewards made hard to hack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.config import construct
from posttrain.config.wording import Place
from posttrain.domains.canaries import is_canary, with_canaries
from posttrain.domains.code_judge import LIMITS, judge_problem
from posttrain.domains.guarded_examine import Seen, examine
from posttrain.domains.guarded_fresh import Fresh
from posttrain.domains.problem import Problem
from posttrain.domains.rows import NOWHERE
from posttrain.protocols import Limits, Sandbox
from posttrain.rewards.code import CodeReward, extract_code
from posttrain.rewards.integrity.settings import Integrity, answered
from posttrain.types import Domain, Reward, Split, Task, Trajectory

EPOCH = "epoch"
"""The key of a task's reference that says how often its domain has begun again."""


def guarded(
    domain: str | Mapping[str, Any],
    *,
    integrity: Integrity = Integrity(),
    canaries: float = 0.0,
    cpu_seconds: float = LIMITS.cpu_seconds,
    name: str = "",
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of programming problems whose answers are looked at before they are paid.

    `domain` is a table with `use`, or a name. `canaries` is the share of training tasks that nobody can
    solve: any reward for one is an alarm. See docs/how-to/reward_hacking.md. Raises ConfigError.
    """
    from posttrain.domains import DOMAINS

    key = f"{place.key}.domain".strip(".")
    found = construct(domain, DOMAINS, source=place.source, key=key, expected=Domain)
    assert isinstance(found, Domain)
    if not 0 <= canaries < 1:
        raise place.at("canaries").error(f"{canaries} is no share of the tasks", "Set it to 0 … 0.5")
    limits = replace(LIMITS, cpu_seconds=cpu_seconds)
    return over(found, integrity, canaries=canaries, limits=limits, name=name)


def over(
    domain: Domain,
    how: Integrity = Integrity(),
    *,
    canaries: float = 0.0,
    limits: Limits = LIMITS,
    name: str = "",
) -> Domain:
    """Return a domain with the tasks of another, whose rewards are lowered and flagged by what is seen."""
    inner, fresh = with_canaries(domain, canaries) if canaries else domain, Fresh()

    def task(split: Split, level: int, index: int) -> Task:
        own = inner.task(split, level, index)
        size = inner.size(split, level)
        reference = {**own.reference, EPOCH: index // size if size else 0}
        return replace(own, domain=name or own.domain, reference=reference)

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        reward = await inner.verify(trajectory, sandbox, files)
        task = trajectory.task
        if is_canary(task):
            return answered(reward, (), {}, how)
        source = extract_code(trajectory.answer)
        epoch = int(task.reference.get(EPOCH, 0))
        return await protect(reward, Problem.of(task), source, sandbox, how, fresh, epoch, limits)

    return replace(inner, name=name or inner.name, task=task, verify=verify)


async def guard(
    problem: Problem,
    source: str,
    sandbox: Sandbox,
    settings: Integrity = Integrity(),
    *,
    scheme: CodeReward = CodeReward(),
    fresh: Fresh | None = None,
    epoch: int = 0,
    limits: Limits = LIMITS,
) -> Reward:
    """Return what a candidate's source earns by a problem's tests once it has been looked at.

    Give one `fresh` for many calls, so that equal tests are made once. Raises RunFailed where the sandbox
    has no verdict, InputError for a problem without hidden tests.
    """
    reward = await judge_problem(problem, source, sandbox, scheme, limits)
    return await protect(reward, problem, source, sandbox, settings, fresh or Fresh(), epoch, limits)


async def protect(
    reward: Reward,
    problem: Problem,
    source: str,
    sandbox: Sandbox,
    how: Integrity,
    fresh: Fresh,
    epoch: int = 0,
    limits: Limits = LIMITS,
) -> Reward:
    """Return a reward lowered and flagged by what is seen of the answer that it was given for."""
    if reward.parts.get("compiled", 1.0) == 0.0 or not source.strip():
        return answered(reward, (), {}, how)
    tests = await fresh.cases(problem, epoch, how.fresh, sandbox)
    seen = await examine(problem, source, tests, sandbox, how, limits)
    return answered(replace(reward, value=lowered(reward.value, seen, how)), seen.flags, seen.parts(), how)


def lowered(value: float, seen: Seen, how: Integrity) -> float:
    """Return what is earned by what unseen tests confirm; nothing is said of intent."""
    if value <= 0:
        return value
    value = min(value, seen.hidden) if seen.num_unseen > seen.num_fresh else value
    if seen.num_fresh and seen.fresh < how.confirm * value:
        value = seen.fresh
    return 0.0 if seen.no_better and how.chance == "zero" else value
