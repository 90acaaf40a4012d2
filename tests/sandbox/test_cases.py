"""Judging by cases: in a real sandbox, and on a runner that says whatever a test wants it to say."""

# ruff: noqa: E501 (lines of the tables)

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posttrain.protocols import CaseResult, RunResult, Status
from posttrain.sandbox import Answer, Call, Case, Limits, Local, LocalSandbox, Program, plain
from posttrain.sandbox.verdict.cases import judge, summary

sys.path.insert(0, str(Path(__file__).parent))
from opened import opened

QUICK = Limits(cpu_seconds=2.0, wall_seconds=20.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened(Local(workers=2)) as sandbox:
        yield sandbox


def python(source: str) -> Program:
    return Program("python", source)


class Said:
    """A runner whose answers are given; it keeps what it was asked."""

    def __init__(self, *answers: Answer, run: RunResult | None = None) -> None:
        self.answers, self.result = list(answers), run
        self.asked: list[list[Call]] = []
        self.programs: list[Program] = []

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        self.programs.append(program)
        assert self.result is not None
        return self.result

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        self.programs.append(program)
        self.asked.append(list(calls))
        given, self.answers = self.answers[: len(calls)], self.answers[len(calls) :]
        return tuple(given)


def said(value: Any) -> Answer:
    return Answer("OK", plain.dumps(value), cpu_seconds=0.25, peak_memory_bytes=7)


def ran(stdout: bytes, status: Status = "OK", truncated: bool = False) -> RunResult:
    return RunResult(status, 0, stdout, b"trace", truncated, 0.5, 1.0, 9)


F = python("def f(x): ...")


async def verdicts(runner: Any, *cases: Case, program: Program = F) -> list[Status]:
    result = await judge(runner, program, cases, QUICK)
    return [case.status for case in result.cases]


async def test_each_case_is_compared_outside_with_what_came_back(sandbox: LocalSandbox) -> None:
    program = python("def f(x, *, by=2):\n    return x * by\n")
    cases = [
        Case(8, "f", (4,)), Case(9, "f", (4,)), Case(12, "f", (4,), {"by": 3}), Case(8.0, "f", (4,)),
        Case(8.0, "f", (4,), comparator="float:1e-6"), Case([1, 1], "f", ([1],)),
    ]  # fmt: skip
    result = await sandbox.test(program, cases, QUICK)
    assert [case.status for case in result.cases] == ["OK", "WRONG", "OK", "WRONG", "OK", "OK"]
    assert (result.status, result.trust, result.passed_share) == ("WRONG", "strong", 4 / 6)
    assert all(0 < case.cpu_seconds < 2 and case.peak_memory_bytes > 2**20 for case in result.cases)


async def test_expected_values_and_comparators_are_never_sent() -> None:
    runner = Said(said(1))
    await judge(runner, F, [Case("secret", "f", (1,), comparator="in")], QUICK)
    assert runner.programs == [F]
    assert runner.asked == [[Call("f", (1,), {})]]


async def test_cases_by_input_and_output(sandbox: LocalSandbox) -> None:
    double = python("print(2 * int(input()))")
    cases = [
        Case("14\n", stdin=b"7\n"), Case("14", stdin=b"7\n"), Case("14", stdin=b"7\n", comparator="lines"),
        Case(b"14\n", stdin=b"7\n"), Case("15\n", stdin=b"7\n", comparator="lines"), Case("", stdin=b"x\n"),
    ]  # fmt: skip
    result = await sandbox.test(double, cases, QUICK)
    assert [c.status for c in result.cases] == ["OK", "WRONG", "OK", "OK", "WRONG", "RUNTIME_ERROR"]
    assert "ValueError" in result.cases[-1].detail


async def test_output_that_is_no_text_is_compared_as_bytes(sandbox: LocalSandbox) -> None:
    program = python("import sys; sys.stdout.buffer.write(b'\\xff\\n')")
    result = await sandbox.test(program, [Case(b"\xff\n"), Case("\udcff\n"), Case(b"\xfe\n")], QUICK)
    assert [case.status for case in result.cases] == ["OK", "WRONG", "WRONG"]


async def test_a_failure_of_the_machine_is_never_a_wrong_answer_and_hides_no_verdict() -> None:
    cases = [Case(1, "f"), Case(1, "f"), Case(1, "f")]
    result = await judge(Said(said(1), Answer("INFRA", detail="lost"), said(2)), F, cases, QUICK)
    assert [case.status for case in result.cases] == ["OK", "INFRA", "WRONG"]
    assert (result.status, result.cases[1].detail) == ("INFRA", "lost")
    assert await verdicts(Said(run=ran(b"1", "INFRA")), Case("1")) == ["INFRA"]


@pytest.mark.parametrize(
    ("statuses", "whole"),
    [(["OK", "OK"], "OK"), (["OK", "CPU_TIMEOUT", "WRONG"], "CPU_TIMEOUT"), (["WRONG", "INFRA"], "INFRA")],
)
def test_the_whole_is_as_good_as_its_first_failure(statuses: list[Status], whole: Status) -> None:
    assert summary(statuses) == whole


async def test_no_cases_are_no_verdict() -> None:
    result = await judge(Said(), F, [], QUICK)
    assert (result.status, result.cases, result.passed_share) == ("INFRA", (), 0.0)


@pytest.mark.parametrize(
    "line", [b"", b"[", b"NaN", b'{"set":[1,1]}', b"[" * 100_000, b"9" * 10_000, b"\xff", b'{"eval":"1"}']
)
async def test_a_line_that_no_harness_writes_is_tampering(line: bytes) -> None:
    assert await verdicts(Said(Answer("OK", line)), Case(1, "f")) == ["TAMPERED"]


async def test_an_answer_without_a_line_is_never_a_pass() -> None:
    assert await verdicts(Said(Answer("OK")), Case(None, "f")) == ["RUNTIME_ERROR"]
    assert await verdicts(Said(Answer("OK")), Case(None, "f", comparator="falsy")) == ["RUNTIME_ERROR"]


@pytest.mark.parametrize(
    "status", ["RUNTIME_ERROR", "CPU_TIMEOUT", "WALL_TIMEOUT", "MEMORY", "OUTPUT", "SECURITY", "TAMPERED"]
)
@pytest.mark.parametrize("comparator", ["exact", "!=", "falsy", "not in", "is not", "raises"])
async def test_a_call_that_failed_passes_no_comparator(status: Status, comparator: str) -> None:
    answers = [Answer(status, plain.dumps([]), raised=("ValueError",))] * 2
    case = Case("ValueErro", "f", comparator=comparator)
    assert await verdicts(Said(*answers), case) == [status]


async def test_printing_the_answer_and_failing_is_failing() -> None:
    assert await verdicts(Said(run=ran(b"1", "RUNTIME_ERROR")), Case("1")) == ["RUNTIME_ERROR"]


async def test_output_that_was_cut_off_is_no_wrong_answer_but_a_full_pipe_of_errors_does_no_harm() -> None:
    cap = QUICK.output_bytes
    assert await verdicts(Said(run=ran(b"1" * cap, truncated=True)), Case("1" * cap)) == ["OUTPUT"]
    assert await verdicts(Said(run=ran(b"1", truncated=True)), Case("1")) == ["OK"]


@pytest.mark.parametrize(
    "case",
    [
        Case(1, "f", comparator="nonsense"), Case(object(), "f"), Case({1: lambda: 1}, "f"), Case(1, "f", comparator="custom"),
        Case({"checker": 1}, "f", comparator="custom"), Case(1, "f", comparator="asserts"), Case((), "f", comparator="raises"),
        Case("assert True", comparator="asserts"),
    ],
)  # fmt: skip
async def test_a_case_that_nobody_could_pass_is_no_verdict_on_the_program(case: Case) -> None:
    assert await verdicts(Said(said(1), said(1)), case) == ["INFRA"]


async def test_a_hidden_case_tells_the_answer_alone_and_a_visible_one_what_was_expected() -> None:
    cases = [Case("secret", "f"), Case("secret", "f", hidden=False)]
    hidden, visible = (await judge(Said(said([1]), said([1])), F, cases, QUICK)).cases
    assert hidden == CaseResult("WRONG", "[1]", 0.25, 7)
    assert visible.detail == "[1], expected by exact: 'secret'"


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, 10**5_000, list(range(5_000)), [10**5_000], "\ud800\0", iter([1])],
    ids=["text", "integer", "list", "integer in a list", "odd text", "iterator"],
)
async def test_what_is_told_of_an_answer_is_short_and_the_same_each_time(value: Any) -> None:
    line = plain.dumps(value, iterators=True)
    details = {
        (await judge(Said(Answer("OK", line)), F, [Case(0, "f")], QUICK)).cases[0].detail for _ in range(2)
    }
    (detail,) = details
    assert 0 < len(detail) <= 401


async def test_calls_in_a_row_share_a_process_and_runs_do_not() -> None:
    cases = [Case(1, "f"), Case(1, "f"), Case("1"), Case(1, "f"), Case("1", stdin=b"in")]
    runner = Said(said(1), said(1), said(1), run=ran(b"1"))
    assert await verdicts(runner, *cases) == ["OK"] * 5
    assert [len(calls) for calls in runner.asked] == [2, 1]
    assert [program.stdin for program in runner.programs].count(b"in") == 1


# --- exceptions -----------------------------------------------------------------------------------


def raising(name: str | Sequence[str], *arguments: Any) -> Case:
    return Case(name, "f", arguments, comparator="raises")


async def test_an_expected_exception_is_the_class_or_one_of_its_bases(sandbox: LocalSandbox) -> None:
    program = python("def f(x):\n    return {1: 2}[x] if x else int('x')\n")
    cases = [
        raising("KeyError", 5), raising("LookupError", 5), raising(["ValueError", "KeyError"], 5),
        raising("ValueError", 5), raising("KeyError", 1), raising("ValueError", 0), raising("TypeError"),
    ]  # fmt: skip
    result = await sandbox.test(program, cases, QUICK)
    assert [case.status for case in result.cases] == ["OK", "OK", "OK", "RUNTIME_ERROR", "WRONG", "OK", "OK"]


@pytest.mark.parametrize(
    "source",
    ["raise ValueError", "def f(:", "def g(): pass", "import os\nos._exit(0)", "raise SystemExit",
     "f = None\ndel f\nraise ValueError", "import os\ndef f(x):\n    os._exit(0)", "def f(x):\n    raise SystemExit(0)",
     "def f(x):\n    import ctypes; ctypes.string_at(0)", "class E(BaseException): pass\ndef f(x):\n    raise E"],
)  # fmt: skip
async def test_no_other_failure_passes_for_the_expected_exception(sandbox: LocalSandbox, source: str) -> None:
    names = ("ValueError", "NameError", "SyntaxError")
    result = await sandbox.test(python(source), [raising(name, 1) for name in names], QUICK)
    assert {case.status for case in result.cases} <= {"RUNTIME_ERROR", "COMPILE_ERROR"}


# --- checkers -------------------------------------------------------------------------------------

FACTORS = "def check(question, expected, answer):\n    a, b = answer\n    return a * b == question[0] and a > expected"


def custom(checker: str, *arguments: Any, expected: Any = 1, **more: Any) -> Case:
    return Case({"checker": checker, "expected": expected}, "f", arguments, comparator="custom", **more)


async def test_a_checker_decides_in_a_box_of_its_own(sandbox: LocalSandbox) -> None:
    program = python("def f(n):\n    return [d for d in range(2, n) if n % d == 0][:1] + [n // 2]\n")
    result = await sandbox.test(program, [custom(FACTORS, 10), custom(FACTORS, 15)], QUICK)
    assert [case.status for case in result.cases] == ["OK", "WRONG"]


async def test_a_checker_also_judges_output(sandbox: LocalSandbox) -> None:
    checker = "def check(question, expected, answer):\n    return answer.split() == [expected, question]"
    cases = [
        Case({"checker": checker, "expected": expected}, stdin=b"in", comparator="custom")
        for expected in (b"a", b"b")
    ]
    result = await sandbox.test(python("print('a', input())"), cases, QUICK)
    assert [case.status for case in result.cases] == ["OK", "WRONG"]


@pytest.mark.parametrize(
    "checker", ["", "def check(:", "check = 1", "raise ValueError", "import nowhere\n" + FACTORS]
)
async def test_a_broken_checker_gives_no_verdict(sandbox: LocalSandbox, checker: str) -> None:
    result = await sandbox.test(python("def f(): return [2, 3]"), [custom(checker)], QUICK)
    assert result.status == "INFRA"
    assert "checker" in result.cases[0].detail


@pytest.mark.parametrize(
    ("checker", "answer"),
    [
        (FACTORS, "[]"), (FACTORS, "'ab'"), (FACTORS, "None"), ("def check(q, e, a): return a", "1"), ("def check(q, e, a): return a", "'True'"),
        ("def check(q, e, a): return a and True", "[]"), ("def check(q, e, a): raise SystemExit(0)", "1"),
        ("import os\ndef check(q, e, a): os._exit(0)", "1"), ("def check(q, e, a): return print(True)", "1"),
        ("def check(q, e, a): return a()", "1"), ("def check(q, e, a): return (n for n in [True])", "1"),
    ],
)  # fmt: skip
async def test_an_answer_cannot_get_rid_of_its_verdict_by_upsetting_the_checker(
    sandbox: LocalSandbox, checker: str, answer: str
) -> None:
    result = await sandbox.test(python(f"def f(x): return {answer}"), [custom(checker, 6)], QUICK)
    assert result.status == "WRONG"


async def test_a_checker_never_meets_the_candidates_process() -> None:
    runner = Said(said([2, 3]), said(True), said(True))
    assert await verdicts(runner, custom(FACTORS, 6)) == ["OK"]
    candidate, checker = runner.programs
    assert candidate == F
    assert checker.source.startswith(FACTORS)
    assert runner.asked[1][1] == Call("check", ((6,), 1, [2, 3]))
    assert await verdicts(Said(said([2, 3]), said(True), Answer("INFRA")), custom(FACTORS, 6)) == ["INFRA"]


async def test_what_a_checker_said_is_told_of_visible_cases_only(sandbox: LocalSandbox) -> None:
    checker = "def check(q, e, a): raise ValueError(f'not {e}')"
    case = custom(checker, 1, expected="secret")
    result = await sandbox.test(python("def f(x): return x"), [case, replace(case, hidden=False)], QUICK)
    hidden, visible = result.cases
    assert "secret" not in hidden.detail
    assert "secret" in visible.detail


CONTROL = "\\ud800\\x1b[2J\\x07\\u202e\\r\\x9b"


@pytest.mark.parametrize(
    "source",
    [
        f"def f():\n    raise ValueError('{CONTROL}')",
        f"def f():\n    return '{CONTROL}'",
        f"def f():\n    return {{'{CONTROL}': b'\\x1b'}}",
        f"raise ValueError('{CONTROL}')",
        "class E(Exception): pass\nE.__name__ = '\\x1b[2J'\ndef f():\n    raise E('x')",
    ],
)
async def test_no_word_of_a_program_can_steer_a_terminal_or_break_an_encoding(
    sandbox: LocalSandbox, source: str
) -> None:
    for case in (Case("x", "f"), Case("x", "f", hidden=False), Case(["KeyError"], "f", comparator="raises")):
        (judged,) = (await sandbox.test(Program("python", source), [case])).cases
        assert judged.status in ("WRONG", "RUNTIME_ERROR")
        assert judged.detail.replace("\n", "").replace("\t", "").isprintable(), ascii(judged.detail)
        judged.detail.encode()


async def test_nor_can_what_a_program_prints(sandbox: LocalSandbox) -> None:
    for source in (
        f"print('{CONTROL}'.encode('utf-8', 'surrogatepass'))",
        "import os; os.write(1, b'\\x1b[2J\\xff\\x9b'); os.write(2, b'\\x1b]0;x\\x07'); os._exit(3)",
        "import os; os.write(1, b'\\x1b[2J\\xff\\x9b')",
    ):
        (judged,) = (
            await sandbox.test(Program("python", source), [Case("x", stdin=b"1", hidden=False)])
        ).cases
        assert judged.status in ("WRONG", "RUNTIME_ERROR")
        assert judged.detail.replace("\n", "").isprintable(), ascii(judged.detail)
