"""The contract of a verifier: a reward with finite numbers for any text, always the same one, in time.

Run it on your own: `asyncio.run(inspect_verifier(verify, {"answer": "42"})).findings`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from posttrain.contracts.domain import DEADLINE_SECONDS
from posttrain.contracts.hostile import HOSTILE_ANSWERS, WRONG_ANSWERS
from posttrain.contracts.outcome import Rules
from posttrain.contracts.verdicts import Judge, attempt, note, outcome_of, same, shortened
from posttrain.protocols import Sandbox
from posttrain.runtime.inline import Aside
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Message, Task, VerifyFunction

REFERENCE: Mapping[str, Any] = {"answer": "42"}
"""What the task of the check holds unless it is told otherwise."""


async def inspect_verifier(
    verify: VerifyFunction,
    reference: Mapping[str, Any] = REFERENCE,
    *,
    sandbox: Sandbox | None = None,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Rules:
    """Return every rule with what was seen of it, on one task with this `reference`.

    The verifier judges ordinary and hostile answers, each twice, and `reference["answer"]` if there is one.
    """
    rules, aside = Rules(), Aside()
    written = inspect.iscoroutinefunction(verify) or inspect.iscoroutinefunction(type(verify).__call__)
    rules.expect("verify is async", written, "write `async def`: a run awaits it", "functions")
    task = Task("check/0", "check", 0, (Message("user", "What is it?"),), dict(reference))
    answers = {shortened(answer): answer for answer in WRONG_ANSWERS} | dict(HOSTILE_ANSWERS)
    if "answer" in reference:
        answers = {"the gold answer": str(reference["answer"]), **answers}
    judge = Judge(verify, sandbox or ScriptedSandbox(), aside, deadline_seconds)
    try:
        for name, answer in answers.items():
            if not written:
                break
            seen = await judge(attempt(task, answer))
            note(rules, judge, name, seen)
            if seen.holds_up:
                break
            same(rules, name, seen, await judge(attempt(task, answer)))
            if name == "the gold answer":
                rules.show("gold answer earns", outcome_of(seen), seen.reward.value if seen.reward else None)
    finally:
        aside.close()
    return rules
