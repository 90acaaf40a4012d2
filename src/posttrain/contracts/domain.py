"""The contract of a domain: pure tasks, disjoint splits, a verifier that tells right from wrong.

Run it on your own: `check_domain(my_domain)` gives what is broken, or nothing; `inspect_domain` gives
every rule with what was seen of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from posttrain.contracts.finding import Finding
from posttrain.contracts.hostile import HOSTILE_ANSWERS, WRONG_ANSWERS
from posttrain.contracts.outcome import Rules
from posttrain.contracts.tasks import inspect_tasks
from posttrain.contracts.verdicts import Judge, attempt, note, outcome_of, same, shortened
from posttrain.protocols import Sandbox
from posttrain.runtime.inline import Aside, DeadlineExceeded
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Task

DEADLINE_SECONDS = 10.0
"""What each of a domain's functions may take for one task or attempt here; runs set their own."""

__all__ = ["DEADLINE_SECONDS", "attempt", "check_domain", "inspect_domain"]


def check_domain(
    domain: Domain,
    *,
    num_tasks: int = 8,
    levels: Sequence[int] | None = None,
    wrong_answers: Sequence[str] = WRONG_ANSWERS,
    sandbox: Sandbox | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> list[Finding]:
    """Return every broken rule over the first tasks of each split and level.

    A sandbox is needed only by domains that use one. The gold answer is looked for in
    `reference["answer"]`; without it, only the wrong answers are tried. It runs an event loop of its own.
    """
    work = inspect_domain(
        domain, num_tasks=num_tasks, levels=levels, wrong_answers=wrong_answers, sandbox=sandbox,
        deadline_seconds=deadline_seconds,
    )  # fmt: skip
    return asyncio.run(work).findings


async def inspect_domain(
    domain: Domain,
    *,
    num_tasks: int = 8,
    levels: Sequence[int] | None = None,
    wrong_answers: Sequence[str] = WRONG_ANSWERS,
    sandbox: Sandbox | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Rules:
    """Return every rule with what was seen of it, as `check_domain` sees it."""
    rules, aside = Rules(), Aside()
    judge = Judge(domain.verify, sandbox or ScriptedSandbox(), aside, deadline_seconds)
    try:
        for level in range(domain.levels) if levels is None else levels:
            tasks = inspect_tasks(domain, level, num_tasks, rules, deadline_seconds)
            some = [task for split in tasks.values() for task in split]
            if some and not await _judge_all(domain, some, wrong_answers, judge, rules):
                break
        if not any("answer" in task.reference for task in some):
            rules.skip("gold answer succeeds", "no task has reference['answer']")
        if domain.respond is not None and some:
            await _respond(domain, some[0], judge, rules)
    finally:
        aside.close()
    return rules


async def _judge_all(
    domain: Domain, tasks: Sequence[Task], wrong_answers: Sequence[str], judge: Judge, rules: Rules
) -> bool:
    """Judge right and wrong answers; return False where one held the loop up, so the rest was not asked."""
    for number, task in enumerate(tasks):
        gold = task.reference.get("answer")
        answers = {shortened(answer): answer for answer in wrong_answers}
        if number == 0:
            answers |= HOSTILE_ANSWERS
        wrong = [(name, answer, False) for name, answer in answers.items() if answer != gold]
        right = [] if gold is None else [(f"the gold answer {shortened(str(gold))}", str(gold), True)]
        for name, answer, is_gold in right + wrong:
            if not await _judge_one(domain, task, name, answer, is_gold, judge, rules, again=number == 0):
                return False
    return True


async def _judge_one(
    domain: Domain, task: Task, name: str, answer: str, is_gold: bool, judge: Judge, rules: Rules,
    *, again: bool,
) -> bool:  # fmt: skip
    """Judge one answer and note what was seen; return False if the verifier hung or blocked the loop."""
    what = f"{task.id}: {name}"
    seen = await judge(attempt(task, answer))
    reward = note(rules, judge, what, seen)
    if reward is not None:
        rule = "gold answer succeeds" if is_gold else "wrong answer fails"
        holds = (reward.value >= domain.success) == is_gold
        rules.expect(rule, holds, f"{what} earns {outcome_of(seen)} (success: {domain.success:g})", "answers")
    if again and domain.deterministic and not seen.holds_up:
        same(rules, what, seen, await judge(attempt(task, answer)))
    if not domain.deterministic:
        rules.skip("equal attempts get equal rewards", "the domain says deterministic = False")
    return not seen.holds_up


async def _respond(domain: Domain, task: Task, judge: Judge, rules: Rules) -> None:
    """Have the domain answer an attempt's turn: it gives messages, or None to end, in time."""
    respond, rule = domain.respond, "respond gives messages or None"
    assert respond is not None
    for answer in ("I do not know", ""):
        seen, what = "", f"{task.id}: after {shortened(answer)}"
        work = partial(respond, attempt(task, answer), None)
        try:
            given = await judge.aside.run(work, judge.deadline_seconds)
            sound = isinstance(given, tuple) and given and all(isinstance(each, Message) for each in given)
            seen = "" if given is None or sound else f"{what}: gave {type(given).__name__} {given!r}"
        except DeadlineExceeded as late:
            seen = f"{what}: {late}"
        except Exception as error:  # a user's domain may raise anything
            seen = f"{what}: raised {type(error).__name__}: {error}"
        rules.expect(rule, not seen, seen, "turns")
    rules.expect("max_turns is positive", domain.max_turns >= 1, f"it is {domain.max_turns}", "domains")
