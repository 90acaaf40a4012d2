"""A sandbox that runs nothing: it answers from a script and keeps what it was asked, for tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, final

from posttrain.protocols import Case, CaseResult, Limits, Program, RunResult, Status, TestResult

Result = TypeVar("Result", RunResult, TestResult)


@final
class ScriptedSandbox:
    """Answer each `run` and `test` with the next result of its script, in order.

    Sessions share the script of `runs`. `programs` keeps every program asked for. An empty script
    and a closed sandbox raise AssertionError: the test under way expected something else.
    """

    def __init__(self, runs: Iterable[RunResult] = (), tests: Iterable[TestResult] = ()) -> None:
        self._runs, self._tests = deque(runs), deque(tests)
        self._closed = False
        self.programs: list[Program] = []

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Return the next scripted run."""
        return _next(self._runs, self._asked(program))

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Return the next scripted test."""
        return _next(self._tests, self._asked(program))

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> ScriptedSession:
        """Open a session that answers from the script of runs."""
        assert not self._closed, "this sandbox is closed"
        return ScriptedSession(self)

    async def close(self) -> None:
        """Close; closing twice is allowed."""
        self._closed = True

    def _asked(self, program: Program) -> Program:
        assert not self._closed, "this sandbox is closed"
        self.programs.append(program)
        return program


@final
class ScriptedSession:
    """A session that answers from its sandbox's script of runs."""

    def __init__(self, sandbox: ScriptedSandbox) -> None:
        self._sandbox, self._closed = sandbox, False

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Return the next scripted run."""
        assert not self._closed, "this session is closed"
        return await self._sandbox.run(program, limits)

    async def close(self) -> None:
        """Close; the sandbox stays open."""
        self._closed = True


def ran(stdout: bytes = b"", status: Status = "OK", files: Mapping[str, bytes] | None = None) -> RunResult:
    """Return the result of a run that printed `stdout`; exit code 0 where the status is OK, else 1."""
    code = 0 if status == "OK" else 1
    return RunResult(status, code, stdout, b"", False, 0.0, 0.0, 0, files or {})


def compared(*statuses: Status) -> TestResult:
    """Return the result of a test with these verdicts on its cases: OK if all are."""
    worst: Status = next((status for status in statuses if status != "OK"), "OK")
    return TestResult(worst, tuple(CaseResult(status) for status in statuses))


def _next(script: deque[Result], program: Program) -> Result:
    assert script, f"the script is used up, and this was asked for: {program.source[:80]!r}"
    return script.popleft()
