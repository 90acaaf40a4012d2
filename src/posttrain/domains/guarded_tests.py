"""One answer with its tests: running some of them, and reading its program."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from posttrain.domains.code_judge import MAX_TIMEOUTS, judge_cases
from posttrain.domains.problem import Problem
from posttrain.errors import RunFailed
from posttrain.protocols import Case, CaseResult, Limits, Sandbox
from posttrain.rewards.code import MEANINGS, passed_share
from posttrain.rewards.integrity.cases import key, without_examples, words_of
from posttrain.rewards.integrity.fold import Folder
from posttrain.rewards.integrity.program import NoProgram, laid_open
from posttrain.rewards.integrity.removals import constants


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests of one answer and where they run."""

    problem: Problem
    visible: list[Case]
    hidden: list[Case]
    fresh: list[Case]
    sandbox: Sandbox
    limits: Limits

    @property
    def all(self) -> list[Case]:
        return [*self.visible, *self.hidden, *self.fresh]

    def shares(self, results: dict[int, CaseResult]) -> tuple[float, float, float]:
        """Return the passed shares of visible, hidden and fresh cases."""
        visible, hidden, fresh = (
            passed_share([results[id(case)] for case in some])
            for some in (self.visible, self.hidden, self.fresh)
        )
        return visible, hidden, fresh

    async def run(
        self, source: str, cases: Sequence[Case], *, shuffled: bool = False, patience: int = MAX_TIMEOUTS
    ) -> dict[int, CaseResult]:
        """Return the verdict on each case, by identity; `shuffled` gives away no order."""
        order = list(cases)
        if shuffled:
            digest = hashlib.sha256(f"{self.problem.name}\n{source}".encode("utf-8", "replace"))
            Random(digest.hexdigest()).shuffle(order)
        found = await judge_cases(self.problem, source, order, self.sandbox, self.limits, patience=patience)
        if any(MEANINGS[result.status] == "none" for result in found):
            raise RunFailed("the sandbox has no verdict on an answer that is looked at")
        return {id(case): result for case, result in zip(order, found, strict=True)}


@dataclass(frozen=True, slots=True)
class Read:
    """An answer as it reads: its tree, or None, its constants, and what the statement names."""

    tree: ast.Module | None
    literals: frozenset[str]
    known: frozenset[str]

    @classmethod
    def of(cls, problem: Problem, source: str) -> Read:
        """Return what can be read of an answer."""
        known = words_of(without_examples(problem.statement, problem.function))
        try:
            tree = laid_open(source, is_script=problem.function is None)
        except NoProgram:
            return cls(None, frozenset(), known)
        return cls(tree, frozenset(key(value) for value in constants([tree], Folder(tree))), known)


def ended_alike(one: CaseResult, other: CaseResult) -> bool:
    """Tell whether two runs of a case ended alike: with the same answer, or both without one."""
    answered = ("OK", "WRONG")
    if one.status in answered and other.status in answered:
        return one.detail == other.detail
    return one.status == other.status
