"""Assert-style test code in two boxes: the test's own, and the candidate's, to which calls are forwarded.

The candidate's process sees its own calls and nothing else; the test's process sees answers as plain data, so
no object of the candidate's takes part in a comparison. What a function does to its arguments in place stays
in its box: a test sees what comes back and what is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, final

from posttrain.protocols import Case, CaseResult, Limits, Program, Status
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Answer, Call, Runner

TEST_LIMITS = Limits(cpu_seconds=20.0, wall_seconds=120.0, memory_bytes=2**30, output_bytes=2**24)
MAX_ROUNDS = 200
FIRST_BATCH, GROWTH = 4, 8
"""So many new calls are asked first, and times as many in each further round: an endless loop shows early."""
PASSED, FAILED, CALLS, ENDED, RAISED, LOST = "passed", "failed", "calls", "ended", "raised", "lost"
MAX_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Test:
    """Test code for one function, and trusted code before it: the definitions of a prompt, for instance."""

    __test__ = False

    source: str
    function: str
    preamble: str = ""

    @classmethod
    def of(cls, case: Case) -> Test:
        """Read the test of a case whose comparator is 'asserts'; ValueError where there is none."""
        given = case.expected
        if type(given) is str:
            given = {"test": given}
        if type(given) is not dict or case.function is None:
            raise ValueError(
                "comparator 'asserts': give the function's name, and expected = {'test': source}"
            )
        source, preamble = given.get("test"), given.get("preamble", "")
        if type(source) is not str or type(preamble) is not str:
            raise ValueError("comparator 'asserts': expected must be {'test': source, 'preamble': source}")
        return cls(source, case.function, preamble)

    def case(self) -> Case:
        """Return the case that `of` reads."""
        return Case({"test": self.source, "preamble": self.preamble}, self.function, comparator="asserts")


async def check(
    runner: Runner, program: Program, test: Test, limits: Limits, *, tell: bool = False
) -> CaseResult:
    """Return the verdict of test code on a program; `limits` hold for each call of the candidate.

    Whatever goes wrong before the candidate's first answer is the test's own fault: INFRA. A test that fails
    later has refused the candidate's answers; `tell` what it said, which may give away what it expected.
    """
    return await _Trial(runner, program, test, limits, tell).result()


@dataclass(frozen=True, slots=True)
class _Played:
    """How a playing of the test went; see `tester.play`."""

    how: str
    calls: tuple[bytes, ...] = ()
    more: Any = None


@final
class _Trial:
    """A test under way: calls and their answers so far. An answer that was used once is kept for good."""

    def __init__(self, runner: Runner, program: Program, test: Test, limits: Limits, tell: bool) -> None:
        self._runner, self._program, self._test, self._limits = runner, program, test, limits
        self._tester, self._tell = _tester(), tell
        self._asked: tuple[bytes, ...] = ()
        self._answers: tuple[Answer, ...] = ()

    async def result(self) -> CaseResult:
        """Play and ask in turn until the test is over."""
        num_kept, batch = -1, FIRST_BATCH
        for _ in range(MAX_ROUNDS):
            played = await self._play()
            if played.how != CALLS:
                return self._verdict(played)
            if played.more <= num_kept:
                return self._say("INFRA", "the test does not make the same calls when it is repeated")
            num_kept = played.more
            failed = await self._ask(played.calls[: num_kept + batch], num_kept)
            if failed is not None:
                return self._say(failed.status, failed.detail)
            batch *= GROWTH
        return self._say("WRONG", f"the test is not over after {MAX_ROUNDS} rounds of calls")

    async def _play(self) -> _Played:
        """Play the test, ahead of its answers if that works."""
        played = await self._play_once(goes_ahead=True)
        return played if played.how != LOST else await self._play_once(goes_ahead=False)

    async def _play_once(self, goes_ahead: bool) -> _Played:
        test = self._test
        given = [(line, *_given(answer)) for line, answer in zip(self._asked, self._answers, strict=True)]
        call = Call("play", (test.source, test.preamble, test.function, given, goes_ahead))
        (answer,) = await self._runner.call(self._tester, [call], TEST_LIMITS)
        if answer.status == "INFRA":
            return _Played("unjudged", more=answer.detail)
        if answer.status != "OK" or answer.line is None:
            return _Played(LOST, more=f"{answer.status} {answer.detail}")
        how, calls, more = plain.loads(answer.line)
        return _Played(how, tuple(calls), more)

    async def _ask(self, lines: Sequence[bytes], num_kept: int) -> Answer | None:
        """Have all calls answered by a fresh process, keep what was there; return what ends the test."""
        calls = [Call(*plain.loads(line)) for line in lines]
        defined, *answers = await self._runner.call(
            self._program, [is_defined(self._test.function), *calls], self._limits
        )
        if defined.status != "OK":
            return defined
        self._asked = tuple(lines)
        self._answers = (*self._answers[:num_kept], *answers[num_kept:])
        return next((answer for answer in self._answers if answer.status == "INFRA"), None)

    def _verdict(self, played: _Played) -> CaseResult:
        if played.how == PASSED:
            return self._say("OK", f"{len(played.calls)} calls")
        if played.how in (ENDED, RAISED):
            answer = self._answers[played.more]
            return self._say(answer.status if answer.status != "OK" else "TAMPERED", answer.detail)
        if played.how in (FAILED, LOST) and self._answers:
            return self._say(
                "WRONG", f"the test says: {played.more}" if self._tell else "the test refuses it"
            )
        return self._say("INFRA", f"the test itself does not work: {played.more}")

    def _say(self, status: Status, detail: str) -> CaseResult:
        used = sum(answer.cpu_seconds for answer in self._answers)
        memory = max((answer.peak_memory_bytes for answer in self._answers), default=0)
        return CaseResult(status, detail[:MAX_SHOWN], used, memory)


def is_defined(function: str) -> Call:
    """Return a call that succeeds where a program defines a function, whatever that may be.

    Without it a program that raises an exception as it starts would pass tests that expect just that.
    """
    return Call(f"{function}.__init_subclass__")


def _tester() -> Program:
    """Return the program that plays tests, with the one module that it imports."""
    package = resources.files("posttrain.sandbox")
    files = dict.fromkeys(("posttrain/__init__.py", "posttrain/sandbox/__init__.py"), b"")
    files["posttrain/sandbox/plain.py"] = package.joinpath("plain.py").read_bytes()
    return Program("python", package.joinpath("verdict/tester.py").read_text("utf-8"), files=files)


def _given(answer: Answer) -> tuple[str, Any]:
    """Return an answer as the tester takes it; only an exception can be caught by a test, no other ending."""
    if answer.status == "OK" and answer.line is not None and _is_plain(answer.line):
        return "value", answer.line
    if answer.status == "RUNTIME_ERROR" and "Exception" in answer.raised:
        return RAISED, (answer.raised, answer.detail)
    return ENDED, None


def _is_plain(line: bytes) -> bool:
    try:
        plain.loads(line)
    except ValueError:
        return False
    return True
