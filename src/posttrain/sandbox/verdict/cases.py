"""Judging a program by cases: inputs go into its box, answers come out, and only here are they compared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from posttrain.protocols import Case, CaseResult, Limits, Program, Status, TestResult
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Answer, Call, Runner
from posttrain.sandbox.shown import shown
from posttrain.sandbox.verdict import checker, compare, forwarded

RAISES = "raises"
MAX_AT_ONCE = 16
MAX_SHOWN = 400
"""Characters of an answer that a verdict shows."""


async def judge(
    runner: Runner, program: Program, cases: Sequence[Case], limits: Limits = Limits()
) -> TestResult:
    """Return the verdict on every case, in order; without cases there is none.

    Consecutive cases that call functions share one process of the candidate; every other case has its own.
    Besides those in `compare.py` there are three comparators: 'raises' expects names of exceptions, 'custom'
    a checker (see `checker.py`) and 'asserts' test code (see `forwarded.py`).
    """
    if not cases:
        return TestResult("INFRA", ())
    parts = _parts(cases)
    if len(parts) == 1:  # by far the most usual, and tasks of their own take time
        found = await _judge_part(runner, program, parts[0], limits)
    else:
        places = asyncio.Semaphore(MAX_AT_ONCE)

        async def in_place(part: Sequence[Case]) -> list[CaseResult]:
            async with places:
                return await _judge_part(runner, program, part, limits)

        results = await asyncio.gather(*map(in_place, parts))
        found = [result for part in results for result in part]
    return TestResult(summary([result.status for result in found]), tuple(found))


def summary(statuses: Sequence[Status]) -> Status:
    """Return INFRA where any case has no verdict, else the first that is not OK, else OK."""
    if "INFRA" in statuses:
        return "INFRA"
    return next((status for status in statuses if status != "OK"), "OK")


def _kind(case: Case) -> str:
    if case.comparator == "asserts":
        return "asserts"
    return "output" if case.function is None else "calls"


def _parts(cases: Sequence[Case]) -> list[list[Case]]:
    """Cut the cases into what is run together."""
    parts: list[list[Case]] = []
    for kind, group in groupby(cases, _kind):
        some = list(group)
        parts += [some] if kind == "calls" else [[case] for case in some]
    return parts


async def _judge_part(
    runner: Runner, program: Program, part: Sequence[Case], limits: Limits
) -> list[CaseResult]:
    kind = _kind(part[0])
    if kind == "calls":
        return await _judge_calls(runner, program, part, limits)
    one = _judge_asserts if kind == "asserts" else _judge_output
    return [await one(runner, program, part[0], limits)]


async def _judge_calls(
    runner: Runner, program: Program, cases: Sequence[Case], limits: Limits
) -> list[CaseResult]:
    calls = [Call(case.function or "", case.arguments, case.keywords) for case in cases]
    # What raises on its own must not pass for a function that does.
    needed = dict.fromkeys(case.function or "" for case in cases if case.comparator == RAISES)
    answers = await runner.call(program, [*map(forwarded.is_defined, needed), *calls], limits)
    assert len(answers) == len(needed) + len(calls), "an answer for each call"
    defined = zip(needed, answers[: len(needed)], strict=True)
    undefined = {name: replace(answer, raised=()) for name, answer in defined if answer.status != "OK"}
    return [
        await _judge_answer(runner, case, undefined.get(case.function or "", answer))
        for case, answer in zip(cases, answers[len(needed) :], strict=True)
    ]


async def _judge_answer(runner: Runner, case: Case, answer: Answer) -> CaseResult:
    cpu_seconds, memory = answer.cpu_seconds, answer.peak_memory_bytes
    if case.comparator == RAISES:
        return _judge_raised(
            case, answer, CaseResult("WRONG", answer.detail[:MAX_SHOWN], cpu_seconds, memory)
        )
    if answer.status != "OK" or answer.line is None:
        status: Status = answer.status if answer.status != "OK" else "RUNTIME_ERROR"
        return CaseResult(status, answer.detail[:MAX_SHOWN], cpu_seconds, memory)
    try:
        value = plain.loads(answer.line)
    except ValueError:
        return CaseResult("TAMPERED", f"no answer: {_shown_line(answer.line)}", cpu_seconds, memory)
    used = CaseResult("WRONG", _shown(value, answer.line), cpu_seconds, memory)
    return await _compared(runner, case, value, used)


def _judge_raised(case: Case, answer: Answer, used: CaseResult) -> CaseResult:
    """Return the verdict where an exception is expected: one of the named classes, or derived from it."""
    names = (case.expected,) if type(case.expected) is str else case.expected
    if type(names) not in (list, tuple) or not names:
        return replace(used, status="INFRA", detail=f"comparator '{RAISES}': expected must name exceptions")
    if answer.status == "OK":
        return replace(used, detail="no exception")
    if answer.status != "RUNTIME_ERROR":
        return replace(used, status=answer.status)
    return replace(used, status="OK" if set(names) & set(answer.raised) else "RUNTIME_ERROR")


async def _judge_output(runner: Runner, program: Program, case: Case, limits: Limits) -> CaseResult:
    result = await runner.run(replace(program, stdin=case.stdin), limits)
    used = CaseResult("WRONG", _shown_bytes(result.stdout), result.cpu_seconds, result.peak_memory_bytes)
    if result.status != "OK":
        return replace(used, status=result.status, detail=_shown_bytes(result.stderr[-MAX_SHOWN:]))
    if result.truncated and len(result.stdout) >= limits.output_bytes:
        return replace(used, status="OUTPUT", detail=f"more than {limits.output_bytes} bytes of output")
    expected = case.expected.encode("utf-8", "surrogatepass") if type(case.expected) is str else case.expected
    return await _compared(runner, replace(case, expected=expected), result.stdout, used)


async def _judge_asserts(runner: Runner, program: Program, case: Case, limits: Limits) -> CaseResult:
    try:
        test = forwarded.Test.of(case)
    except ValueError as error:
        return CaseResult("INFRA", str(error))
    return await forwarded.check(runner, program, test, limits, tell=not case.hidden)


async def _compared(runner: Runner, case: Case, answer: object, used: CaseResult) -> CaseResult:
    """Return the verdict on an answer, `used` where it is wrong; a case that nobody could pass has none."""
    try:
        if case.comparator == "custom":
            return await checker.check(runner, case, answer, used)
        if compare.matches(case.comparator, case.expected, answer):
            return replace(used, status="OK")
        plain.dumps(case.expected)
    except (ValueError, TypeError) as error:
        return replace(used, status="INFRA", detail=f"the case itself is wrong: {error}")
    return used if case.hidden else replace(used, detail=_told(case, used))


def _told(case: Case, used: CaseResult) -> str:
    """Return the detail of a visible case: there the expected value is no secret."""
    return f"{used.detail}, expected by {case.comparator}: {_shown(case.expected)}"


def _shown(value: object, line: bytes = b"") -> str:
    if len(line) > 16 * MAX_SHOWN or b'{"iterator":' in line:
        return _shown_line(line)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of very many digits, for instance
        text = f"({type(value).__name__})"
    return _shortened(text)


def _shown_line(line: bytes) -> str:
    return _shortened(line[: MAX_SHOWN + 1].decode("ascii", "replace"))


def _shown_bytes(content: bytes) -> str:
    return _shortened(shown(content[: 4 * MAX_SHOWN].decode("utf-8", "replace")))


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
