"""Proof of a problem before it is taken: the solution earns everything, and what does no work does not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from posttrain.domains.code_judge import LIMITS, judge_cases
from posttrain.domains.problem import Problem
from posttrain.errors import RunFailed
from posttrain.mine import choose
from posttrain.mine.cases import answer, key
from posttrain.mine.craft import Left
from posttrain.protocols import Case, Sandbox
from posttrain.types import JSON

NUM_CONSTANTS = 2
MAX_TRIVIAL = 0.5
"""The share of hidden tests that a program without work may pass; more are thinned out."""
MOST_TRIVIAL = 0.6
"""What may remain where one program's cases were thinned out after another's."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The shares of hidden tests that the solution passes, and the best program without any work."""

    gold: float
    trivial: float

    def to_json(self) -> dict[str, JSON]:
        """Return it for the report."""
        return {"gold": self.gold, "trivial": round(self.trivial, 3)}


async def prove(sandbox: Sandbox, problem: Problem) -> tuple[Problem, Proof]:
    """Return a problem with the cases that stand, and its proof; Left where too little stands.

    What the solution fails depends on more than the call, such as the order of a set. What a program without
    work passes is thinned out.
    """
    problem = await _without_unsound(sandbox, problem)
    programs = trivial(problem)
    for source in programs:
        passed = await _passed(sandbox, problem, source, problem.hidden)
        if len(passed) > MAX_TRIVIAL * len(problem.hidden):
            problem = replace(problem, hidden=tuple(choose.capped(problem.hidden, passed, MAX_TRIVIAL)))
            if len(problem.hidden) < choose.MIN_HIDDEN:
                raise Left("a program without work passes", source or "no program at all")
    everything = (*problem.visible, *problem.hidden)
    gold = len(await _passed(sandbox, problem, problem.solution, everything)) / len(everything)
    if gold < 1:
        raise Left("its solution fails", f"{1 - gold:.0%} of its cases, when asked again")
    shares = [
        len(await _passed(sandbox, problem, source, problem.hidden)) / len(problem.hidden)
        for source in programs
    ]
    if max(shares) > MOST_TRIVIAL:
        raise Left("a program without work passes", f"{max(shares):.0%} of the hidden tests")
    return problem, Proof(gold, max(shares))


async def _without_unsound(sandbox: Sandbox, problem: Problem) -> Problem:
    """Return a problem without the cases that its own solution fails."""
    everything = (*problem.visible, *problem.hidden)
    passed = await _passed(sandbox, problem, problem.solution, everything)
    visible = tuple(case for case in problem.visible if key(case) in passed)
    hidden = tuple(case for case in problem.hidden if key(case) in passed)
    if not visible or len(hidden) < choose.MIN_HIDDEN:
        raise Left("its solution fails", f"{len(everything) - len(passed)} of {len(everything)} cases")
    return replace(problem, visible=visible, hidden=hidden)


async def _passed(sandbox: Sandbox, problem: Problem, source: str, cases: Sequence[Case]) -> set[str]:
    """Return the keys of the cases that a program passes."""
    results = await judge_cases(problem, source, cases, sandbox, LIMITS)
    lost = next((result for result in results if result.status == "INFRA"), None)
    if lost is not None:
        raise RunFailed(f"the sandbox gave no verdict on {problem.name}: {lost.detail}")
    return {key(case) for case, result in zip(cases, results, strict=True) if result.status == "OK"}


def trivial(problem: Problem) -> list[str]:
    """Return programs that do no work: nothing at all, an empty one, an echo, constants."""
    name = problem.function
    head = f"def {name}(*arguments, **keywords):\n    "
    echo = f"{head}return arguments[0] if arguments else None"
    return ["", f"{head}pass", echo, *(f"{head}return {value}" for value in _constants(problem.hidden))]


def _constants(hidden: tuple[Case, ...]) -> list[str]:
    """Return the most usual answers as source; those that constants cannot write are left out."""
    told = [case for case in hidden if case.comparator != "raises" and _is_literal(case.expected)]
    usual = Counter(map(answer, told)).most_common(NUM_CONSTANTS)
    first = {answer(case): repr(case.expected) for case in reversed(told)}
    return [first[text] for text, _ in usual]


def _is_literal(value: object) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_literal, value))
    if isinstance(value, dict):
        return all(_is_literal(key) and _is_literal(inner) for key, inner in value.items())
    return not isinstance(value, float) or math.isfinite(value)
