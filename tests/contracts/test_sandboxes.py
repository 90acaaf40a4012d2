"""Sandboxes keep the contract, and the contract notices what a sandbox does wrong."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from posttrain.contracts.sandbox import check_boxes, check_run, check_sandbox, check_sessions, check_test
from posttrain.contracts.sandbox_rules import READ, RUNS, TESTS
from posttrain.protocols import Case, Limits, Program, RunResult, Sandbox, TestResult
from posttrain.sandbox.local import Local


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    opened = asyncio.run(Local(workers=1).open())
    yield opened
    asyncio.run(opened.close())


@pytest.mark.parametrize("level", ["landlock", "namespaces"])
async def test_the_local_sandbox_keeps_the_contract(level: Any) -> None:
    opened = await Local(workers=1, min_level=level).open()
    try:
        assert await check_sandbox(opened) == []
    finally:
        await opened.close()


Change = Callable[[Any], Any]


def same(thing: Any) -> Any:
    return thing


@dataclass(frozen=True)
class Broken:
    """A real sandbox with one fault: what goes in, or what comes back, is changed on the way."""

    inner: Any
    program: Change = same
    limits: Change = same
    result: Change = same
    tested: Change = same
    cases: Change = same

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        return self.result(await self.inner.run(self.program(program), self.limits(limits)))  # type: ignore[no-any-return]

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        return self.tested(await self.inner.test(program, self.cases(tuple(cases)), limits))  # type: ignore[no-any-return]

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> Any:
        return replace(self, inner=await self.inner.session(files, limits))

    async def close(self) -> None:
        await self.inner.close()


def passed(result: TestResult) -> TestResult:
    return replace(result, status="OK", cases=tuple(replace(case, status="OK") for case in result.cases))


def softened(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    return tuple(
        replace(case, comparator="float:0.5") if case.comparator == "exact" else case for case in cases
    )


FAULTS: dict[str, tuple[dict[str, Change], str]] = {
    "prints nothing": ({"result": lambda r: replace(r, stdout=b"")}, "output is returned"),
    "mixes errors into output": (
        {"result": lambda r: replace(r, stdout=r.stdout + r.stderr)},
        "output and errors are kept apart",
    ),
    "decodes output": (
        {"result": lambda r: replace(r, stdout=r.stdout.decode(errors="replace").encode())},
        "output may be any bytes",
    ),
    "forgets exit codes": (
        {"result": lambda r: replace(r, exit_code=0)},
        "an exit code is told and is not OK",
    ),
    "takes any end for success": (
        {"result": lambda r: replace(r, status="OK")},
        "an exception is shown and is not OK",
    ),
    "feeds no input": ({"program": lambda p: replace(p, stdin=b"")}, "input is fed, whatever its bytes"),
    "drops arguments": ({"program": lambda p: replace(p, arguments=())}, "arguments are passed on"),
    "drops files": ({"program": lambda p: replace(p, files={})}, "files go in"),
    "collects nothing": (
        {"result": lambda r: replace(r, files={})},
        "files come out, and only those asked for that are there",
    ),
    "invents files": (
        {"result": lambda r: replace(r, files={**r.files, "extra": b""})},
        "only regular files come out",
    ),
    "does not cap output": (
        {"limits": lambda given: replace(given, output_bytes=2**16)},
        "output beyond the limit is cut and marked",
    ),
    "hides that output was cut": (
        {"result": lambda r: replace(r, truncated=False)},
        "output beyond the limit is cut and marked",
    ),
    "says no verdict where there is one": (
        {"result": lambda r: replace(r, status="INFRA") if r.status == "CPU_TIMEOUT" else r},
        "an endless loop is a time-out",
    ),
    "gives more disk": ({"limits": lambda given: replace(given, disk_bytes=2**28)}, "disk is limited"),
    "gives more memory": ({"limits": lambda given: replace(given, memory_bytes=2**33)}, "memory is limited"),
    "keeps its box": (
        {"program": lambda p: replace(p, files={"left.txt": b"here"}) if p == READ else p},
        "each run has a fresh box",
    ),
    "passes everything": ({"tested": passed}, "cases are compared in order"),
    "loses the last case": (
        {"tested": lambda t: replace(t, cases=t.cases[:-1])},
        "cases are compared in order",
    ),
    "turns the cases round": (
        {"tested": lambda t: replace(t, cases=t.cases[::-1])},
        "cases are compared in order",
    ),
    "says OK of the whole": (
        {"tested": lambda t: replace(t, status="OK")},
        "a test without cases is not passed",
    ),
    "is tolerant unasked": ({"cases": softened}, "types are compared"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_contract_notices_each_fault(sandbox: Sandbox, fault: str) -> None:
    changes, rule = FAULTS[fault]
    broken = Broken(sandbox, **changes)
    findings = await check_boxes(broken)
    findings += [finding for run in RUNS if run.rule == rule for finding in await check_run(broken, run)]
    findings += [finding for test in TESTS if test.rule == rule for finding in await check_test(broken, test)]
    assert rule in [finding.rule for finding in findings]


@dataclass(frozen=True)
class Forgetful:
    """A sandbox whose sessions are fresh boxes for every run."""

    inner: Any

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> Any:
        return self

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        return await self.inner.run(program, limits)  # type: ignore[no-any-return]

    async def close(self) -> None:
        pass


async def test_the_contract_notices_a_session_that_forgets(sandbox: Sandbox) -> None:
    findings = await check_sessions(Forgetful(sandbox))  # type: ignore[arg-type]
    assert {finding.rule for finding in findings} >= {
        "a session has its files", "a session keeps its files", "a session keeps its variables",
    }  # fmt: skip


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.rule for rule in (*RUNS, *TESTS)]
    assert len(set(names)) == len(names)
