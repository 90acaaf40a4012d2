"""The contract of a sandbox: it runs, limits, isolates and compares, and says honestly how a run ended.

A program that cannot be run as asked (an unknown language, impossible limits) gets a result that is not OK or
an `InputError`, never another exception.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from posttrain.contracts.finding import Finding
from posttrain.contracts.sandbox_rules import (
    ECHO,
    HASTY,
    LATE,
    QUICK,
    READ,
    RUNS,
    TESTS,
    WRITE,
    Judged,
    Run,
    ends,
    is_refused,
    printed,
    python,
)
from posttrain.errors import InputError
from posttrain.protocols import RunResult, Sandbox, Status, TestResult


async def check_sandbox(sandbox: Sandbox) -> list[Finding]:
    """Return every broken rule; it takes some seconds, since some rules are about time-outs."""
    findings = [finding for run in RUNS for finding in await check_run(sandbox, run)]
    findings += [finding for test in TESTS for finding in await check_test(sandbox, test)]
    findings += await check_boxes(sandbox)
    return findings + await check_sessions(sandbox)


async def check_run(sandbox: Sandbox, run: Run) -> list[Finding]:
    """Check one rule about a run."""
    try:
        result = await sandbox.run(run.program, run.limits)
    except InputError:
        return [] if run.holds is is_refused else [Finding(run.rule, "saw InputError")]
    except Exception as error:
        return [Finding(run.rule, f"saw {type(error).__name__}: {error}")]
    honest = result.cpu_seconds >= 0 and result.wall_seconds >= 0 and result.peak_memory_bytes >= 0
    return [] if run.holds(result) and honest else [Finding(run.rule, f"saw {result}"[:2000])]


async def check_test(sandbox: Sandbox, test: Judged) -> list[Finding]:
    """Check one rule about a test."""
    result = await sandbox.test(python(test.source), test.cases, test.limits)
    fits = _fits(result, test.statuses)
    return [] if fits else [Finding(test.rule, f"saw {result}"[:2000])]


def _fits(result: TestResult, allowed: Sequence[Sequence[Status]]) -> bool:
    """Tell whether each case has an allowed status and the whole is OK only if all are."""
    statuses = [case.status for case in result.cases]
    whole = (result.status == "OK") == all(status == "OK" for status in statuses)
    return (
        whole
        and len(statuses) == len(allowed)
        and all(s in a for s, a in zip(statuses, allowed, strict=True))
    )


async def check_boxes(sandbox: Sandbox) -> list[Finding]:
    """Check that a run leaves nothing to the next, and that no test is passed by having no cases."""
    findings = []
    await sandbox.run(WRITE, QUICK)
    read = await sandbox.run(READ, QUICK)
    if read.status == "OK":
        findings.append(Finding("each run has a fresh box", f"saw {read}"))
    results = [await sandbox.run(python("print(hash('posttrain'), {*'abcdef'})"), QUICK) for _ in range(2)]
    if results[0].stdout != results[1].stdout:
        findings.append(Finding("hashes do not change from run to run", f"saw {results}"))
    nothing = await sandbox.test(python(ECHO), (), QUICK)
    if nothing.status == "OK" or nothing.cases:
        findings.append(Finding("a test without cases is not passed", f"saw {nothing}"))
    return findings


async def check_sessions(sandbox: Sandbox) -> list[Finding]:
    """Check that sessions keep what they should, and keep it to themselves."""
    session, other = await sandbox.session({"given.txt": b"given"}, QUICK), await sandbox.session({}, QUICK)
    findings: list[Finding] = []

    async def expect(rule: str, run: Awaitable[RunResult], holds: Callable[[RunResult], bool]) -> None:
        result = await run
        if not holds(result):
            findings.append(Finding(rule, f"saw {result}"))

    given = python("print(open('given.txt').read())")
    await expect("a session has its files", session.run(given, QUICK), printed(b"given\n"))
    await session.run(WRITE, QUICK)
    await expect("a session keeps its files", session.run(READ, QUICK), printed(b"here\n"))
    await expect(
        "a session keeps its variables", session.run(python("print(x + 1)"), QUICK), printed(b"42\n")
    )
    await session.run(python("1 / 0"), QUICK)
    await expect("an error does not end a session", session.run(READ, QUICK), printed(b"here\n"))
    late = session.run(python("while True: pass"), HASTY)
    await expect("a session's run can be too late", late, ends(*LATE))
    await expect("files outlive a time-out", session.run(READ, QUICK), printed(b"here\n"))
    await expect("sessions do not see each other", other.run(READ, QUICK), lambda r: r.status != "OK")
    await session.close()
    await session.close()
    await other.close()
    return findings
