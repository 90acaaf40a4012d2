"""The contract of a sandbox: it runs, isolates and compares, and says honestly how a run ended."""

from __future__ import annotations

from posttrain.contracts.finding import Finding
from posttrain.protocols import Case, Program, Sandbox

PRINT = Program("python", "print(6 * 7)")
CRASH = Program("python", "raise SystemExit(3)")
WRITE = Program("python", "open('left.txt', 'w').write('here')")
READ = Program("python", "print(open('left.txt').read())")
DOUBLE = Program("python", "def double(x):\n    return 2 * x\n")
CASES = (
    Case(expected=8, function="double", arguments=(4,)),
    Case(expected=9, function="double", arguments=(4,)),
)


async def check_sandbox(sandbox: Sandbox) -> list[Finding]:
    """Return every broken rule: six runs, one test of two cases, one session of two runs.

    The runs come in this order: PRINT, CRASH, WRITE, READ, then WRITE and READ in the session.
    """
    findings: list[Finding] = []

    def expect(rule: str, holds: bool, seen: object) -> None:
        if not holds:
            findings.append(Finding(rule, f"saw {seen}"))

    printed = await sandbox.run(PRINT)
    expect("output is returned", printed.status == "OK" and printed.stdout.strip() == b"42", printed)
    crashed = await sandbox.run(CRASH)
    expect("a crash is not OK", crashed.status == "RUNTIME_ERROR" and crashed.exit_code != 0, crashed)
    await sandbox.run(WRITE)
    read = await sandbox.run(READ)
    expect("each run has a fresh box", read.status != "OK", read)
    result = await sandbox.test(DOUBLE, CASES)
    statuses = [case.status for case in result.cases]
    expect("cases are compared in order", statuses == ["OK", "WRONG"] and result.status != "OK", result)
    session = await sandbox.session({})
    await session.run(WRITE)
    again = await session.run(READ)
    expect("a session keeps its files", again.status == "OK" and again.stdout.strip() == b"here", again)
    await session.close()
    return findings
