"""Custom comparators: a checker program decides, in a box of its own that the candidate never enters.

The case's `expected` is a dictionary with the checker's source, a Python program that defines
`check(question, expected, answer)`, and whatever it needs to know:

    Case({"checker": "def check(question, expected, answer): …", "expected": 3}, "f", comparator="custom")

`question` is the tuple of arguments, or the bytes of standard input; `answer` what the function gave back, or
the bytes that were printed. `check` returns True to accept it; everything else is a refusal.
"""

from __future__ import annotations

from dataclasses import replace

from posttrain.protocols import Case, CaseResult, Limits, Program
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Call, Runner

LIMITS = Limits(cpu_seconds=10.0, wall_seconds=60.0, memory_bytes=2**30)
READY = "is_checker_ready"
_SUFFIX = f"\n\ndef {READY}():\n    return callable(check)\n"


async def check(runner: Runner, case: Case, answer: object, used: CaseResult) -> CaseResult:
    """Return the checker's verdict on an answer; ValueError for a case without a checker.

    A checker that is broken gives no verdict. One that works and fails at this very answer, by an exception
    or by its limits, does not accept it: otherwise an answer could get rid of its verdict.
    """
    source, expected = _read(case)
    question = case.stdin if case.function is None else case.arguments
    program = Program("python", source + _SUFFIX)
    ready, checked = await runner.call(
        program, [Call(READY), Call("check", (question, expected, answer))], LIMITS
    )
    if ready.status != "OK" or ready.line != plain.dumps(True):
        return replace(
            used, status="INFRA", detail=f"the checker does not work: {ready.detail or 'no check()'}"
        )
    if checked.status == "INFRA":
        return replace(used, status="INFRA", detail=checked.detail)
    if checked.status != "OK" or checked.line is None:
        why = checked.status if case.hidden else f"{checked.status} {checked.detail}"
        return replace(used, status="WRONG", detail=f"{used.detail}; the checker could not take it: {why}")
    return replace(used, status="OK" if checked.line == plain.dumps(True) else "WRONG")


def _read(case: Case) -> tuple[str, object]:
    given = case.expected
    if type(given) is not dict or type(given.get("checker")) is not str:
        raise ValueError("comparator 'custom': expected must be {'checker': source, 'expected': …}")
    return given["checker"], given.get("expected")
