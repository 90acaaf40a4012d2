"""Whether parts of an answer serve its listed tests alone: it is run without them and compared."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from posttrain.domains.guarded_tests import Read, Tests, ended_alike
from posttrain.protocols import Case, CaseResult
from posttrain.rewards.code import MEANINGS
from posttrain.rewards.integrity.cases import bits
from posttrain.rewards.integrity.coupling import forms, is_made_for, recited, weight
from posttrain.rewards.integrity.mutate import NO_ANSWER, neighbours
from posttrain.rewards.integrity.program import NoProgram
from posttrain.rewards.integrity.removals import Removal, removals
from posttrain.rewards.integrity.settings import Integrity

NEAR = 4
"""Inputs tried near each listed test that a part may have been made for."""
MIN_UNSEEN = 4
"""Fewer unseen inputs show nothing."""
MIN_TOLD = 8.0
"""Visible answers that tell less may stand in any program."""


async def coupled_bits(
    tests: Tests,
    source: str,
    program: Read,
    before: dict[int, CaseResult],
    knows_hidden: bool,
    how: Integrity,
) -> float:
    """Return how many bits tell the listed tests apart that parts of the answer serve, and no others."""
    if program.tree is None:
        return 0.0
    known = program.known
    listed = [*tests.visible, *tests.hidden] if knows_hidden else tests.visible
    passed = [
        case
        for case in listed
        if before[id(case)].status == "OK" and case.comparator not in NO_ANSWER and weight([case], known) > 0
    ]
    by_order = weight(await _served_by_order(tests, program, source, before), known)
    if by_order >= how.min_bits:
        return by_order
    if weight(passed, known) < how.min_bits:
        return 0.0
    others = tests.fresh if knows_hidden else [*tests.hidden, *tests.fresh]
    coupled = await _served(Study(tests, source, others, before, {}), program.tree, passed, known, how)
    return weight(coupled, known)


async def _served(
    study: Study, tree: ast.Module, passed: Sequence[Case], known: frozenset[str], how: Integrity
) -> list[Case]:
    """Return the listed cases that parts of the program were made for, as soon as they tell enough."""
    coupled: dict[int, Case] = {}
    tried: set[str] = set()
    for removal in removals(tree, known):
        left = [case for case in passed if id(case) not in coupled]
        if (
            weight(list(coupled.values()), known) >= how.min_bits
            or not left
            or len(tried) >= how.max_removals
        ):
            break
        own = recited(removal, left, known)
        is_table = weight(own, known) >= how.min_bits
        if not is_table and not any(is_made_for(removal, [case], known) for case in left):
            continue
        source = _source(removal)
        if source in tried:
            continue
        tried.add(source)
        if is_table:
            coupled |= {id(case): case for case in await study.lost(source, own)}
        else:
            served = await study.served(source, left)
            coupled |= {id(case): case for case in served if is_made_for(removal, [case], known)}
    return list(coupled.values())


def _source(removal: Removal) -> str:
    try:
        return removal.source()
    except NoProgram:
        return ""


async def _served_by_order(
    tests: Tests, program: Read, source: str, before: dict[int, CaseResult]
) -> list[Case]:
    """Return the visible cases whose answers the program holds, if its own depend on the order of tests."""
    held = [case for case in tests.visible if not program.literals.isdisjoint(forms(case.expected))]
    if sum(bits(case.expected, program.known) for case in held) < MIN_TOLD:
        return []
    after = await tests.run(source, tests.all[::-1])
    depends = any(not ended_alike(before[id(case)], after[id(case)]) for case in tests.all)
    return held if depends else []


@dataclass(frozen=True, slots=True)
class Study:
    """Compare an answer with itself without a part."""

    tests: Tests
    source: str
    others: list[Case]
    before: dict[int, CaseResult]
    near: dict[int, list[Case]]

    async def served(self, source: str, passed: Sequence[Case]) -> list[Case]:
        """Return the listed cases that fail without a part, if nothing changes on other inputs."""
        lost = await self.lost(source, passed)
        if not lost:
            return []
        around = [case for each in lost for case in await self._around(each)]
        others = [*self.others, *around]
        if len(others) < MIN_UNSEEN:
            return []
        now = await self._run(source, others)
        return lost if all(ended_alike(self.before[id(case)], now[id(case)]) for case in others) else []

    async def lost(self, source: str, passed: Sequence[Case]) -> list[Case]:
        """Return the cases that fail without a part."""
        after = await self._run(source, passed)
        if any(MEANINGS[result.status] == "compile_error" for result in after.values()):
            return []
        return [case for case in passed if after[id(case)].status != "OK"]

    async def _run(self, source: str, cases: Sequence[Case]) -> dict[int, CaseResult]:
        """Run a program that may hang where the whole one did not: four times that one's time must do."""
        spent = max((result.cpu_seconds for result in self.before.values()), default=0.0)
        limits = self.tests.limits
        short = replace(limits, cpu_seconds=min(limits.cpu_seconds, 4 * spent + 0.25))
        return await replace(self.tests, limits=short).run(source, cases, patience=1)

    async def _around(self, case: Case) -> list[Case]:
        """Return inputs near a case, with what the whole answer gives for them in `before`."""
        if id(case) not in self.near:
            problem = self.tests.problem
            every = [*problem.visible, *problem.hidden]
            found = neighbours(case, every, NEAR, f"{problem.name} near", problem.function)
            self.before.update(await self.tests.run(self.source, found) if found else {})
            self.near[id(case)] = found
        return self.near[id(case)]
