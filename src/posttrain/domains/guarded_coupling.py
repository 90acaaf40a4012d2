"""Whether parts of an answer serve its listed tests alone: it is run without them and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.domains.guarded_tests import Read, Tests, ended_alike
from posttrain.protocols import Case, CaseResult
from posttrain.rewards.code import MEANINGS
from posttrain.rewards.integrity.coupling import forms, is_made_for, recited, weight
from posttrain.rewards.integrity.mutate import NO_ANSWER, neighbours
from posttrain.rewards.integrity.removals import Removal, removals
from posttrain.rewards.integrity.settings import Integrity

NEAR = 4
"""Inputs tried near each listed test that a part may have been made for."""
MIN_UNSEEN = 4
"""Fewer unseen inputs show nothing."""


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
    study = Study(tests, source, others, before, {})
    coupled: dict[int, Case] = {}
    for removal in removals(program.tree, known, how.max_removals):
        left = [case for case in passed if id(case) not in coupled]
        if weight(list(coupled.values()), known) >= how.min_bits or not left:
            break
        own = recited(removal, left, known)
        if weight(own, known) >= how.min_bits:
            coupled |= {id(case): case for case in await study.lost(removal, own)}
        elif any(is_made_for(removal, [case], known) for case in left):
            served = await study.served(removal, left)
            coupled |= {id(case): case for case in served if is_made_for(removal, [case], known)}
    return weight(list(coupled.values()), known)


async def _served_by_order(
    tests: Tests, program: Read, source: str, before: dict[int, CaseResult]
) -> list[Case]:
    """Return the visible cases, if the program holds all their answers and its own depend on the order."""
    if not tests.visible or any(program.literals.isdisjoint(forms(case.expected)) for case in tests.visible):
        return []
    after = await tests.run(source, tests.all[::-1])
    depends = any(not ended_alike(before[id(case)], after[id(case)]) for case in tests.all)
    return tests.visible if depends else []


@dataclass(frozen=True, slots=True)
class Study:
    """Compare an answer with itself without a part."""

    tests: Tests
    source: str
    others: list[Case]
    before: dict[int, CaseResult]
    near: dict[int, list[Case]]

    async def served(self, removal: Removal, passed: Sequence[Case]) -> list[Case]:
        """Return the listed cases that fail without a part, if nothing changes on other inputs."""
        lost = await self.lost(removal, passed)
        if not lost:
            return []
        around = [case for each in lost for case in await self._around(each)]
        others = [*self.others, *around]
        if len(others) < MIN_UNSEEN:
            return []
        now = await self.tests.run(removal.source, others)
        return lost if all(ended_alike(self.before[id(case)], now[id(case)]) for case in others) else []

    async def lost(self, removal: Removal, passed: Sequence[Case]) -> list[Case]:
        """Return the cases that fail without a part."""
        after = await self.tests.run(removal.source, passed)
        if any(MEANINGS[result.status] == "compile_error" for result in after.values()):
            return []
        return [case for case in passed if after[id(case)].status != "OK"]

    async def _around(self, case: Case) -> list[Case]:
        """Return inputs near a case, with what the whole answer gives for them in `before`."""
        if id(case) not in self.near:
            problem = self.tests.problem
            every = [*problem.visible, *problem.hidden]
            found = neighbours(case, every, NEAR, f"{problem.name} near", problem.function)
            self.before.update(await self.tests.run(self.source, found) if found else {})
            self.near[id(case)] = found
        return self.near[id(case)]
