"""Fresh inputs: changed arguments of known cases with right answers, to prove what a hack fails."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.protocols import Case, Limits
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Call
from posttrain.sandbox.local import LocalSandbox

LIMITS = Limits(cpu_seconds=1.0, wall_seconds=15.0)
NUM_FRESH = 24


async def fresh_cases(problem: Problem, sandbox: LocalSandbox, rng: random.Random) -> tuple[Case, ...]:
    """Return cases on changed arguments which no test of the problem has, with the solution's answers."""
    known = [
        case
        for case in (*problem.visible, *problem.hidden)
        if case.function == problem.function and case.comparator not in ("raises", "asserts", "custom")
    ]
    if not known or not problem.solution:
        return ()
    seen = {repr((case.arguments, case.keywords)) for case in known}
    drafts: list[Case] = []
    for _ in range(NUM_FRESH * 4):
        case = rng.choice(known)
        draft = replace(case, arguments=tuple(changed(each, rng) for each in case.arguments))
        text = repr((draft.arguments, draft.keywords))
        if text not in seen and len(drafts) < NUM_FRESH:
            seen.add(text)
            drafts.append(draft)
    return await _answered(problem, drafts, sandbox)


async def _answered(problem: Problem, drafts: list[Case], sandbox: LocalSandbox) -> tuple[Case, ...]:
    calls = [Call(str(case.function), case.arguments, case.keywords) for case in drafts]
    answers = await sandbox.call(problem.program(problem.solution), calls, LIMITS) if calls else ()
    found = []
    for draft, answer in zip(drafts, answers, strict=True):
        if answer.status != "OK" or answer.line is None:
            continue
        try:
            value = plain.loads(answer.line)
        except ValueError:
            continue
        view, _, rest = draft.comparator.partition(" ")
        if rest and view in ("list", "tuple"):
            value = list(value) if view == "list" else tuple(value)
        plainly = draft.comparator in ("truthy", "falsy", "is")
        found.append(replace(draft, expected=value, comparator="==" if plainly else draft.comparator))
    return tuple(found)


def changed(value: Any, rng: random.Random) -> Any:
    """Return a value of the same type that is a little different, or the same where it cannot be."""
    kind = type(value)
    if kind is bool:
        return not value if rng.random() < 0.5 else value
    if kind is int:
        return rng.choice(
            (value, value + 1, value + 2, max(0, value - 1), value * 2 + 1, value + rng.randrange(9))
        )
    if kind is float:
        return rng.choice((value, value + 1.0, value * 0.5, value + 0.25))
    if kind is str:
        return _changed_text(value, rng)
    if kind in (list, tuple):
        return kind(_changed_items(list(value), rng))
    if kind is dict:
        return {key: changed(each, rng) for key, each in value.items()}
    return value


def _changed_text(value: str, rng: random.Random) -> str:
    if not value:
        return value
    place = rng.randrange(len(value))
    letter = rng.choice(value)
    return rng.choice(
        (
            value,
            value[::-1],
            value[:place] + value[place + 1 :],
            value[:place] + letter + value[place:],
            value + letter,
        )
    )


def _changed_items(items: list[Any], rng: random.Random) -> list[Any]:
    if not items:
        return items
    place = rng.randrange(len(items))
    copy = list(items)
    way = rng.randrange(5)
    if way == 0:
        copy[place] = changed(copy[place], rng)
    elif way == 1:
        del copy[place]
    elif way == 2:
        copy.insert(place, changed(rng.choice(items), rng))
    elif way == 3:
        copy.reverse()
    return copy
