"""One suite for each kind of part: run it, and give what was seen rule by rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posttrain.check.report import Section
from posttrain.contracts import algorithm as algorithm_contract
from posttrain.contracts.domain import inspect_domain
from posttrain.contracts.outcome import Rules
from posttrain.contracts.sandbox import check_sandbox
from posttrain.contracts.sandbox_rules import RUNS, TESTS
from posttrain.contracts.tasks import SPLITS
from posttrain.contracts.verdicts import Judge, attempt
from posttrain.contracts.verifier import REFERENCE, inspect_verifier
from posttrain.measures.constant import best_constant, candidates
from posttrain.protocols import Algorithm, Sandbox
from posttrain.runtime.inline import Aside
from posttrain.types import Domain, Group, Message, Reward, Task, Trajectory, VerifyFunction

NUM_CONSTANT_TASKS = 16
NUM_TRIED = 8
"""How many of the commonest gold answers are tried as the constant answer."""
HOPELESS = {
    "size can be called", "has tasks", "task can be called", "task is a Task", "tasks never run out",
    "verify keeps its deadline", "verify leaves the loop free",
}  # fmt: skip
"""Broken rules after which no constant answer is looked for."""
COMPARING = "equal_rewards_teach_nothing"


async def domain_section(
    domain: Domain, sandbox: Sandbox, *, num_tasks: int, levels: Sequence[int], deadline_seconds: float
) -> Section:
    """Run the domain contract and show beside it what the best constant answer would score."""
    rules = await inspect_domain(
        domain, num_tasks=num_tasks, levels=levels, sandbox=sandbox, deadline_seconds=deadline_seconds
    )
    if not {finding.rule for finding in rules.findings} & HOPELESS:
        await _show_constant(domain, levels[0], sandbox, rules, deadline_seconds)
    where = f"{domain.name} (levels {', '.join(map(str, levels))})" if len(levels) > 1 else domain.name
    return Section("domain", where, tuple(rules.outcomes))


async def verifier_section(
    name: str, verify: VerifyFunction, sandbox: Sandbox, reference: Mapping[str, Any], deadline_seconds: float
) -> Section:
    """Run the verifier contract on one task that holds `reference`."""
    rules = await inspect_verifier(
        verify, reference or REFERENCE, sandbox=sandbox, deadline_seconds=deadline_seconds
    )
    return Section("verifier", name, tuple(rules.outcomes))


def algorithm_section(name: str, algorithm: Algorithm) -> Section:
    """Run every rule of the algorithm contract; one that keeps groups of equal rewards need not compare."""
    rules = Rules()
    for rule, check in algorithm_rules().items():
        words, seen = rule.replace("_", " "), ""
        if rule == COMPARING and not _compares(algorithm):
            rules.skip(words, "it keeps groups whose rewards are equal, so it does not compare attempts")
            continue
        try:
            check(algorithm)
        except AssertionError as error:
            seen = str(error) or "it does not hold"
        except Exception as error:  # a user's algorithm may raise anything
            seen = f"raised {type(error).__name__}: {error}"
        rules.expect(words, not seen, seen, "example batch")
    return Section("algorithm", name, tuple(rules.outcomes))


async def sandbox_section(name: str, sandbox: Sandbox) -> Section:
    """Run the sandbox contract, and close the sandbox."""
    rules = Rules()
    try:
        findings = await check_sandbox(sandbox)
    except Exception as error:  # a user's sandbox may raise anything
        rules.expect("the suite can be run", False, f"raised {type(error).__name__}: {error}", "suites")
    else:
        broken = {finding.rule for finding in findings}
        for rule in (*(run.rule for run in RUNS), *(test.rule for test in TESTS)):
            if rule not in broken:
                rules.expect(rule, True, "", "cases")
        boxes = not broken - {run.rule for run in RUNS} - {test.rule for test in TESTS}
        rules.expect("boxes and sessions are kept apart", boxes, "see the rules below", "suites")
        for finding in findings:
            rules.expect(finding.rule, False, finding.detail, "cases")
    finally:
        await sandbox.close()
    return Section("sandbox", name, tuple(rules.outcomes))


def algorithm_rules() -> dict[str, Callable[[Algorithm], None]]:
    """Return the contract's rules by name, in the order in which they stand in its module."""
    functions = inspect.getmembers(algorithm_contract, inspect.isfunction)
    own = [(name, f) for name, f in functions if f.__module__ == algorithm_contract.__name__]
    own.sort(key=lambda pair: pair[1].__code__.co_firstlineno)
    taking = [(n, f) for n, f in own if next(iter(inspect.signature(f).parameters), "") == "algorithm"]
    return {name: f for name, f in taking if not name.startswith("_") and name != "check"}


def _compares(algorithm: Algorithm) -> bool:
    task = Task("check/0", "check", 0, (Message("user", "What is it?"),), {})
    tried: Trajectory = attempt(task, "42")
    return not algorithm.keeps(Group(0, task, (tried,) * 4, (Reward(0.5),) * 4))


async def _show_constant(
    domain: Domain, level: int, sandbox: Sandbox, rules: Rules, deadline_seconds: float
) -> None:
    """Show what always giving the best gold answer would score on held-out tasks."""
    train, held_out = (
        [domain.task(split, level, index) for index in range(_count(domain.size(split, level)))]
        for split in SPLITS
    )
    if not any("answer" in task.reference for task in train):
        rules.skip("best constant answer", "no task has reference['answer'] to choose it from")
        return
    aside = Aside()
    judge = Judge(domain.verify, sandbox, aside, deadline_seconds)
    try:
        earned = {
            (task.id, answer): await _earned(judge, domain, task, answer)
            for answer in candidates(train, NUM_TRIED)
            for task in [*train, *held_out]
        }
    finally:
        aside.close()
    best = best_constant(train, held_out, lambda task, answer: earned[task.id, answer], NUM_TRIED)
    mean = best.interval.mean
    text = f"{best.answer[:40]!r} succeeds on {mean:.2f} of {len(held_out)} held-out tasks: the bar to beat"
    rules.show("best constant answer", text, mean)


async def _earned(judge: Judge, domain: Domain, task: Task, answer: str) -> float:
    reward = (await judge(attempt(task, answer))).reward
    return float(reward is not None and reward.value >= domain.success)


def _count(size: int | None) -> int:
    return NUM_CONSTANT_TASKS if size is None else min(size, NUM_CONSTANT_TASKS)
