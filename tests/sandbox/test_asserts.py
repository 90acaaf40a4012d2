"""Assert-style test code: what converts and to what, and that its verdicts are those of running it."""
# ruff: noqa: E501 (lines of the tables)

import doctest
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import InputError
from posttrain.protocols import CaseResult
from posttrain.sandbox import Case, Limits, Local, LocalSandbox, Program
from posttrain.sandbox.verdict import asserts, constants, forwarded
from posttrain.sandbox.verdict.asserts import read
from posttrain.sandbox.verdict.forwarded import Test

sys.path.insert(0, str(Path(__file__).parent))
from opened import opened

QUICK = Limits(cpu_seconds=2.0, wall_seconds=20.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened(Local(workers=1)) as sandbox:
        yield sandbox


def case(expected: Any, *arguments: Any, by: str = "==", **keywords: Any) -> Case:
    return Case(expected, "f", arguments, keywords, comparator=by)


CONVERTED: list[tuple[str, list[Case]]] = [
    ("assert f(1) == 2", [case(2, 1)]),
    ("assert 2 == f(1)", [case(2, 1)]),
    ("assert f(1) == 2, 'message'", [case(2, 1)]),
    ("assert f(1, b=[2], c={'a': (3,)}) != -4", [case(-4, 1, by="!=", b=[2], c={"a": (3,)})]),
    ("assert f(1) < 2\nassert 2 < f(1)\nassert f(1) >= 2\nassert 2 >= f(1)",
     [case(2, 1, by="<"), case(2, 1, by=">"), case(2, 1, by=">="), case(2, 1, by="<=")]),
    ("assert f(1) in (2, 3)\nassert f(1) not in [2]\nassert 2 in f(1)", [case((2, 3), 1, by="in"), case([2], 1, by="not in"), case(2, 1, by="contains")]),
    ("assert f(1) is None\nassert f(1) is True\nassert f(1) is not False", [case(None, 1, by="is"), case(True, 1, by="is"), case(False, 1, by="is not")]),
    ("assert f(1)\nassert not f(1)", [case(None, 1, by="truthy"), case(None, 1, by="falsy")]),
    ("assert f(1) == 2 and f(3) == 4", [case(2, 1), case(4, 3)]),
    ("assert abs(f(1) - 2.5) <= 0.5\nassert abs(2.5 - f(1)) <= 0.5", [case(2.5, 1, by="within:0.5")] * 2),
    ("assert abs(f(1) - 2) < 0.5", [case(2, 1, by="within:0.49999999999999994")]),
    ("import math\nassert math.isclose(f(1), 2.0)\nassert math.isclose(2.0, f(1), rel_tol=0, abs_tol=0.1)",
     [case(2.0, 1, by="isclose:1e-09,0.0"), case(2.0, 1, by="isclose:0.0,0.1")]),
    ("from math import isclose, fabs\nassert isclose(f(1), 2.0)\nassert fabs(f(1) - 2) <= 1", [case(2.0, 1, by="isclose:1e-09,0.0"), case(2, 1, by="within:1.0")]),
    ("assert set(f(1)) == set([2, 2])\nassert sorted(f(1)) == [2]\nassert len(f(1)) > 0", [case({2}, 1, by="set =="), case([2], 1, by="sorted =="), case(0, 1, by="len >")]),
    ("for n in range(2):\n    assert f(n) == str(n)", [case("0", 0), case("1", 1)]),
    ("for a, (b, c) in [(1, (2, 3))]:\n    assert f(a, b) == c", [case(3, 1, 2)]),
    ("x = [1] * 2\ny, z = 3, 'a' 'b'\nassert f(x, y) == z", [case("ab", [1, 1], 3)]),
    ("METADATA = {'author': 'x'}\n\n\ndef check(candidate):\n    'text'\n    assert True\n    assert candidate(1) == 2\n    assert f(3) == 4\n", [case(2, 1), case(4, 3)]),
    ("def check(c):\n    assert c(1) == 2\n\ncheck(f)", [case(2, 1)]),
    ("import pytest\nwith pytest.raises(ValueError):\n    f(1)", [case(["ValueError"], 1, by="raises")]),
    ("with pytest.raises((ValueError, KeyError)):\n    f(1)", [case(["ValueError", "KeyError"], 1, by="raises")]),
    ("try:\n    f(1)\n    assert False, 'no'\nexcept ValueError:\n    pass", [case(["ValueError"], 1, by="raises")]),
    ("try:\n    f(1)\n    raise AssertionError('no')\nexcept (ValueError, TypeError):\n    assert True", [case(["ValueError", "TypeError"], 1, by="raises")]),
    ("import numpy as np\nassert f(1) == 2", [case(2, 1)]),
    ("assert f(range(3)) == list(range(3))", [case([0, 1, 2], range(3))]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "cases"), [pair for pair in CONVERTED if pair[1]])
def test_assertions_become_these_cases(source: str, cases: list[Case]) -> None:
    assert list(read(source, "f")) == cases


WHOLE = [
    "assert f(1) == f(2)", "assert f(f(1)) == 1", "assert f(1) == 2 == 2", "assert f(1) or f(2)", "assert not f(1) == 2", "assert (f(1) == 2, 'always')",
    "r = f(1)\nassert r == 2", "assert f(1)[0] == 2", "assert f(1).x == 2", "assert f(*[1]) == 2", "assert f(**{'a': 1}) == 2", "assert f(lambda: 1) == 2",
    "x = 0\nx += 1\nassert f(x) == 1", "for n in [1]:\n    if n: assert f(n) == 1", "for n in [1]:\n    pass\nelse:\n    assert f(1) == 1",
    "import random\nassert f(random.random()) == 1", "from math import *\nassert f(abs(-1)) == 1", "assert f(1) == pytest.approx(2)",
    "def other(c):\n    assert c(1) == 1", "def check(c, d):\n    assert c(1) == 1", "def check(c):\n    return c(1) == 1", "def check(*c):\n    assert f(1) == 1",
    "def check(c):\n    assert c(1) == 1\n\ncheck(g)", "def check(c):\n    assert c(1) == 1\n\ncheck(f)\nassert f(2) == 2\ncheck(f)",
    "def set(x):\n    return 0\n\nassert set(f(1)) == 0", "set = sorted\nassert set(f(1)) == [1]", "sorted = f\nassert sorted([1]) == 1", "f = g\nassert f(1) == 1",
    "assert f(1) is 5", "assert len(x) == 1 and f(1)", "assert f([x for x in range(3)]) == 1", "assert f('%s' % 'a') == 1", "assert f(f'{1}') == 1",
    "assert abs(f(1)) - 1 < 2", "assert abs(f(1) - f(2)) < 1", "assert abs(f(1) - x) < 1", "assert math.isclose(f(1))", "assert str(f(1)) == '1'",
    "with pytest.raises(ValueError, match='x'):\n    f(1)", "with pytest.raises(ValueError) as e:\n    f(1)", "with pytest.raises(ValueError):\n    f(1)\n    f(2)",
    "with open('x'):\n    f(1)", "with pytest.raises(Custom):\n    f(1)", "with pytest.raises(ValueError):\n    set(f(1))",
    "try:\n    f(1)\nexcept ValueError:\n    pass", "try:\n    f(1)\n    assert False\nexcept Exception:\n    pass", "try:\n    f(1)\n    assert False\nexcept:\n    pass",
    "try:\n    f(1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'x'", "try:\n    f(1)\n    assert False\nexcept AssertionError:\n    pass",
    "try:\n    f(1)\n    assert False\nexcept ValueError:\n    pass\nfinally:\n    pass", "assert f('a' * 10 ** 9) == 1", "assert f(10 ** 10 ** 9) == 1",
    "assert f(1 << 10 ** 9) == 1", "assert f(list(range(10 ** 12))) == 1", "for n in range(10 ** 12):\n    assert f(n) == 1", "assert f([[0] * 99999] * 99999) == 1",
    "for a in range(9999):\n    for b in range(9999):\n        pass\nassert f(1) == 1", "assert f(...) == 1", "assert f(1) == undefined", "assert f(-'a') == 1",
    "assert f(1 / 0) == 1", "assert f({}[1]) == 1", "assert f([1][5]) == 1", "while False: pass\nassert f(1) == 1", "async def check(c): pass\nassert f(1) == 1",
    "assert f({**{}}) == 1", "assert f({[]: 1}) == 1", "assert f({[]}) == 1", "assert Solution().f(1) == 2", "assert f(" + "[" * 120 + "]" * 120 + ") == 1",
]  # fmt: skip


@pytest.mark.parametrize("source", WHOLE)
def test_code_that_means_more_stays_whole(source: str) -> None:
    preamble = "from helpers import g"
    assert read(source, "f", preamble) == (Test(source, "f", preamble).case(),)


def test_names_that_the_preamble_gives_another_meaning_are_not_taken_for_builtins() -> None:
    source = "assert set(f(1)) == 2"
    assert read(source, "f", "from math import sqrt")[0].comparator == "set =="
    for preamble in (
        "def set(x): return 2",
        "set = len",
        "import x as set",
        "from x import *",
        "class set: pass",
        "for set in []: pass",
    ):
        assert read(source, "f", preamble)[0].comparator == "asserts", preamble
    assert read("assert sum([1]) == sum([2])", "sum")[0].comparator == "asserts"
    assert read("assert sum([1]) == 1", "sum")[0].comparator == "=="


@pytest.mark.parametrize(
    "source",
    ["", "pass", "x = 1", "def check(candidate):\n    assert True", "for n in []:\n    assert f(n) == 1"],
)
def test_code_that_asserts_nothing_of_the_function_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="asserts nothing of 'f', so every program would pass"):
        read(source, "f")


@pytest.mark.parametrize("source", ["assert f(", "\0", "(" * 5000])
def test_code_that_is_no_python_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="is no Python"):
        read(source, "f")
    with pytest.raises(InputError, match="the preamble of test code is no Python"):
        read("assert f(1) == 1", "f", source)


# --- the same verdicts as running the code ------------------------------------------------------------

HELP = "import math\n\ndef poly(xs, x):\n    return sum(c * x ** i for i, c in enumerate(xs))\n\nclass Odd(Exception):\n    pass\n"
IDENTITY, DOUBLE, NOTHING = "def f(x): return x", "def f(x): return 2 * x", "def f(x): return None"
PICKY = "def f(x):\n    if x < 0: raise ValueError('negative')\n    if x > 9: raise KeyError(x)\n    return x"
NUM_QUICK = 4
SOLUTIONS = [
    IDENTITY, PICKY, "def f(x): yield x", "count = 0\ndef f(x):\n    global count\n    count += 1\n    return count",
    DOUBLE, NOTHING, "def f(x): return [x]", "def f(x): return (x, x)", "def f(x): return True", "def f(x): return str(x)",
    "def f(x): return x + 0.25", "def f(x): raise ValueError(x)", "f = None", "def g(): pass", "raise ValueError",
    "def f(x): return {x: x}", "def f(x): return float('nan')",
]  # fmt: skip
TESTS = [
    "assert f(1) == 1\nassert f(2) == 2", "assert f(3) == 3 and f(4) != 5", "assert f(1) in (1, 2)", "assert f(1) is True", "assert f(1) is not None",
    "assert not f(0)", "assert abs(f(1) - 1) < 0.25", "assert abs(f(1) - 1) <= 0.25", "assert math.isclose(f(2), 2.25, abs_tol=0.3)", "assert f(2) > 1",
    "assert list(f(1)) == [1]", "assert set(f(1)) == {1}", "assert len(f(1)) == 1", "assert 1 in f(1)", "for n in range(3):\n    assert f(n) == n",
    "assert f(f(2)) == f(2)", "assert f(1) == f(1)", "x = f(5)\nassert x == 5", "assert f(1) == 1 or f(2) == 4", "assert (f(1) == 2, 'always')",
    "total = 0\nfor n in range(20):\n    total += f(n)\nassert total == 190", "assert all(f(n) == n for n in range(10))", "assert [f(n) for n in (1, 2)] == [1, 2]",
    "try:\n    f(-1)\n    assert False\nexcept ValueError:\n    pass", "try:\n    f(-1)\nexcept ValueError as e:\n    assert str(e)\nelse:\n    raise Odd",
    "try:\n    f(10)\n    raise AssertionError\nexcept LookupError:\n    pass", "import random\nrng = random.Random(1)\nfor _ in range(30):\n    n = rng.randint(1, 9)\n    assert f(n) == n", "assert poly([1, 2], f(1)) == 3",
    "n = 1\nwhile n < 50:\n    n = n + f(n)\nassert n == 64", "def check(candidate):\n    assert candidate(1) == 1\n    assert f(2) == 2",
    "def check(candidate):\n    def inner(n):\n        return candidate(n) - n\n    assert not any(map(inner, range(5)))\ncheck(f)",
    "seen = []\nfor n in (1, 2, 3):\n    try:\n        seen.append(f(n))\n    finally:\n        seen.append(n)\nassert seen == [1, 1, 2, 2, 3, 3]",
    "class Box:\n    def ask(self, n):\n        return f(n)\nassert Box().ask(3) == 3", "assert str(f(1)) == '1'", "assert isinstance(f(1), (int, float))",
    "assert f(1) + f(2) == f(3)", "assert f(1) < f(2) < f(3)", "import copy\nassert copy.deepcopy(f(1)) == 1", "assert f'{f(1)}' == '1'", "assert {f(1): 2}[1] == 2",
    "assert next(iter([f(1)])) == 1", "it = f(1)\nassert next(it) == 1", "assert max(f(n) for n in range(4)) == 3", "assert sum(map(f, [1, 2])) == 3",
    "with __import__('contextlib').suppress(ValueError):\n    f(-1)\nassert f(1) == 1", "raise SystemExit(f(0))", "assert f(1) == 1; raise SystemExit(0)",
]  # fmt: skip


def verdict_of_running(test: str, solution: str) -> bool:
    """Run a test as HumanEval's harness does: in one namespace with the solution, whatever is raised fails."""
    namespace: dict[str, Any] = {}
    source = f"{HELP}\n{solution}\n{test}\n"
    if "def check" in test and "\ncheck(f)" not in test:
        source += "check(f)\n"
    try:
        exec(source, namespace)
    except BaseException:
        return False
    return True


@pytest.mark.parametrize(
    "solutions", [SOLUTIONS[:NUM_QUICK], pytest.param(SOLUTIONS, marks=pytest.mark.slow)], ids=["some", "all"]
)
@pytest.mark.parametrize("test", TESTS)
async def test_verdicts_are_those_of_running_the_test_in_one_namespace(
    sandbox: LocalSandbox, test: str, solutions: list[str]
) -> None:
    cases = {"converted": read(test, "f", HELP), "whole": (Test(test, "f", HELP).case(),)}
    for solution in solutions:
        expected = verdict_of_running(test, solution)
        for how, some in cases.items():
            result = await sandbox.test(Program("python", solution), some, QUICK)
            assert (result.status == "OK") is expected, (how, solution, result)
            assert result.status != "INFRA", (how, solution, result)


def test_the_table_of_tests_has_both_kinds_and_both_verdicts() -> None:
    verdicts = [[verdict_of_running(test, solution) for solution in SOLUTIONS] for test in TESTS]
    assert sum(any(row) and not all(row) for row in verdicts) >= 40
    kinds = [read(test, "f", HELP)[0].comparator for test in TESTS]
    assert kinds.count("asserts") >= 15
    assert len(kinds) - kinds.count("asserts") >= 15


# --- two boxes ----------------------------------------------------------------------------------------


async def check(
    sandbox: LocalSandbox, solution: str, test: str, preamble: str = "", **more: Any
) -> CaseResult:
    return await forwarded.check(
        sandbox, Program("python", solution), Test(test, "f", preamble), QUICK, **more
    )


async def test_a_helper_of_the_test_is_not_the_candidates_to_define(sandbox: LocalSandbox) -> None:
    test = "assert poly([0, 1], f(5)) == 10"
    assert (await check(sandbox, DOUBLE, test, HELP)).status == "OK"
    assert (await check(sandbox, f"{IDENTITY}\ndef poly(xs, x): return 10", test, HELP)).status == "WRONG"


async def test_a_further_function_is_asked_of_the_candidate(sandbox: LocalSandbox) -> None:
    test = "for n in range(5):\n    assert undo(f(n)) == n"
    assert (await check(sandbox, f"{DOUBLE}\ndef undo(x): return x // 2", test)).status == "OK"
    assert (await check(sandbox, f"{DOUBLE}\ndef undo(x): return x", test)).status == "WRONG"
    assert (await check(sandbox, DOUBLE, test)).status == "RUNTIME_ERROR"


CHEATS = {
    "an exit": "import os\ndef f(x): os._exit(0)", "an exit at the start": "import os\nos._exit(0)", "SystemExit": "def f(x): raise SystemExit(0)",
    "a liar": "class A:\n    def __eq__(s, o): return True\n    __hash__ = None\ndef f(x): return A()",
    "a lying number": "class A(int):\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\n    def __sub__(s, o): return 0\ndef f(x): return A(1)",
    "no assertions": "import builtins\nbuiltins.AssertionError = ZeroDivisionError\ndef f(x): return 0", "a new check": "def check(c): pass\ndef f(x): return 0",
    "an exception": "def f(x): raise AssertionError", "nothing": "", "printing": "print('passed')\ndef f(x): print('passed'); return 0",
    "the test's names": "play = passed = 'passed'\ndef f(x): return ('passed', [], None)", "an iterator": "def f(x): yield x",
    "depth": "def f(x):\n    y = []\n    for _ in range(99): y = [y]\n    return y", "a named exception": "class Over(Exception): pass\ndef f(x): raise Over",
    "a pending exception": "class Pending(BaseException): pass\ndef f(x): raise Pending", "much": "def f(x): return 'x' * 900_000", "nan": "def f(x): return float('nan')",
}  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize(
    "test",
    ["assert f(3) - 4 == 5 - f(6)", "x = f(3)\ntry:\n    assert x == 9\nexcept NameError:\n    pass", "assert f(f(3)) == 81",
     "def check(c):\n    for n in (3, 4):\n        assert c(n) == n * n and c(n) == c(n)"],
    ids=["sums", "caught", "passed back", "loop"],
)  # fmt: skip
async def test_no_cheat_passes_and_none_gets_rid_of_its_verdict(
    sandbox: LocalSandbox, test: str, cheat: str
) -> None:
    status = (await check(sandbox, CHEATS[cheat], test)).status
    assert status in ("WRONG", "RUNTIME_ERROR"), status
    assert (
        await check(
            sandbox, "def f(x): return x * x", test.replace("f(3) - 4 == 5 - f(6)", "f(3) - 4 == 41 - f(6)")
        )
    ).status == "OK"


async def test_an_endless_loop_is_told_after_one_call(sandbox: LocalSandbox) -> None:
    limits = Limits(cpu_seconds=0.3, wall_seconds=20.0)
    test = Test("for n in range(400):\n    assert f(n) == str(n) + ''", "f")
    slow = Program("python", "def f(x):\n    while True: pass")
    result = await forwarded.check(sandbox, slow, test, limits)
    assert result.status == "CPU_TIMEOUT"
    assert result.cpu_seconds < 10 * limits.cpu_seconds


async def test_an_answer_once_used_is_kept_although_the_candidate_would_now_give_another(
    sandbox: LocalSandbox,
) -> None:
    moody = "import os\ndef f(x): return x + int.from_bytes(os.urandom(2), 'big')"
    test = "x = 0\nfor _ in range(6):\n    x = f(x)\nassert x >= 0"
    assert (await check(sandbox, moody, test)).status == "OK"


async def test_a_loop_that_the_candidate_keeps_going_ends_as_a_refusal(
    sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarded, "MAX_ROUNDS", 6)
    assert (await check(sandbox, IDENTITY, "while f(1) != 2:\n    pass\n")).status == "WRONG"


@pytest.mark.parametrize(
    ("test", "detail"),
    [
        ("assert f(undefined) == 1", "NameError"), ("import nowhere\nassert f(1) == 1", "ModuleNotFoundError"), ("assert f(lambda: 1) == 1", "not plain data"),
        ("pass", "never calls the candidate"), ("raise SystemExit(0)", "SystemExit"), ("import os\nos._exit(0)", "without an answer"), ("assert f(1", "SyntaxError"),
        ("import time\nassert f(time.perf_counter_ns()) == 1 == f(2)\n", "the same calls"), ("def check(c): pass", "never calls"),
    ],
)  # fmt: skip
async def test_a_test_that_does_not_work_is_no_verdict_on_the_candidate(
    sandbox: LocalSandbox, test: str, detail: str
) -> None:
    result = await check(sandbox, IDENTITY, test)
    assert result.status == "INFRA"
    assert detail in result.detail


async def test_what_a_test_says_is_told_of_visible_cases_only(sandbox: LocalSandbox) -> None:
    test = "assert f(1) == str(7), 'secret'"
    assert "secret" not in (await check(sandbox, IDENTITY, test)).detail
    told = (await check(sandbox, IDENTITY, test, tell=True)).detail
    assert "secret" in told
    assert "line 1" in told


async def test_each_playing_draws_the_same_numbers(sandbox: LocalSandbox) -> None:
    test = "import random\nfor _ in range(40):\n    n = random.randint(0, 10 ** 9)\n    assert f(n) == n + 0"
    assert (await check(sandbox, IDENTITY, test)).status == "OK"


def test_the_examples_are_right() -> None:
    assert doctest.testmod(asserts).failed == doctest.testmod(constants).failed == 0
