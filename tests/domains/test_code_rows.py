"""Rows of known data sets become problems; malformed ones name file, row and field."""

import base64
import json
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from coding import DOUBLE, opened

from posttrain.config.wording import Place
from posttrain.domains.code_judge import judge_problem
from posttrain.domains.code_read import Layout, Visible, problems
from posttrain.domains.code_rows_contest import text_of_pickle
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, RowError
from posttrain.sandbox import LocalSandbox

HUMAN_EVAL = {
    "task_id": "T/0", "entry_point": "twice",
    "prompt": "import math\n\ndef one():\n    return 1\n\n"
              'def twice(x):\n    """ Double it.\n    >>> twice(2)\n    4\n    """\n',
    "canonical_solution": "    return x * 2 * one()\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 6\n"
            "    assert candidate(0) == 0\n",
}  # fmt: skip
MBPP = {
    "task_id": 601, "text": "Write a function to find the largest of two numbers.",
    "code": "def largest(a, b):\n    return max(a, b)", "test_setup_code": "",
    "test_list": ["assert largest(1, 2) == 2", "assert largest(3, 2) == 3", "assert largest(0, 0) == 0"],
    "challenge_test_list": ["assert largest(-1, -2) == -1"],
}  # fmt: skip
PLUS = {
    "task_id": "Mbpp/2", "prompt": "Write a function to halve.", "code": "def half(x):\n    return x / 2",
    "test_imports": ["import math"], "test_list": ["assert half(2) == 1"],
    "test": "inputs = [[4], [3], [2]]\nresults = [2.0, 1.5, 1.0]\n"
            "def assertion(out, exp, atol):\n    assert out == exp\n"
            "for inp, exp in zip(inputs, results):\n    assertion(half(*inp), exp, 0)\n",
}  # fmt: skip
APPS = {
    "problem_id": 7, "question": "Add two numbers.", "starter_code": "",
    "solutions": json.dumps(["a, b = map(int, input().split())\nprint(a + b)\n"]),
    "input_output": json.dumps(
        {"inputs": ["1 2\n", "3 4\n", ["5 6", ""]], "outputs": ["3\n", "7\n", ["11"]]}
    ),
}  # fmt: skip
APPS_FUNCTION = {
    "problem_id": 8, "question": "Sum a list.", "starter_code": "class Solution:\n    def total(self, xs):\n",
    "solutions": json.dumps(["class Solution:\n    def total(self, xs):\n        return sum(xs)\n"]),
    "input_output": json.dumps({"fn_name": "total", "inputs": [[[1, 2]], [[4]]], "outputs": [[3], 4]}),
}  # fmt: skip
TESTS = [
    {"input": "[1, 2]\n3", "output": "6", "testtype": "functional"},
    {"input": "[]\n0", "output": "0", "testtype": "functional"},
]


def packed(tests: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def live(private: str) -> dict[str, Any]:
    return {
        "question_id": "abc", "question_content": "Sum it all.",
        "starter_code": "class Solution:\n    def f(self, xs, y):\n",
        "metadata": json.dumps({"func_name": "f"}), "public_test_cases": json.dumps(TESTS[:1]),
        "private_test_cases": private,
    }  # fmt: skip


LIVE_SOLUTION = "class Solution:\n    def f(self, xs, y):\n        return sum(xs) + y\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened() as sandbox:
        yield sandbox


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Problem]:
    def read(row: dict[str, Any], visible: Visible = "examples", layout: Layout = "auto") -> Problem:
        path = tmp_path / "rows.jsonl"
        path.write_text(json.dumps(row) + "\n")
        (problem,) = problems(str(path), layout, visible, place=Place("", "domains.0"))
        return problem

    return read


@pytest.mark.parametrize(
    ("row", "num_visible", "num_hidden", "solution"),
    [
        (HUMAN_EVAL, 1, 2, ""),
        (MBPP, 1, 3, ""),
        (PLUS, 1, 2, ""),
        (APPS, 1, 2, ""),
        (APPS_FUNCTION, 1, 1, ""),
        (live(packed(TESTS[1:])), 1, 1, LIVE_SOLUTION),
        (live(json.dumps(TESTS[1:])), 1, 1, LIVE_SOLUTION),
        (DOUBLE.reference(), 2, 4, ""),
        ({"name": "x", "reference": DOUBLE.reference()}, 2, 4, ""),
    ],
    ids=[
        "human_eval",
        "mbpp",
        "evalplus",
        "apps",
        "apps function",
        "lcb packed",
        "lcb plain",
        "own",
        "mined",
    ],
)
async def test_rows_become_problems_that_their_solution_solves(
    sandbox: LocalSandbox, read: Callable[..., Problem], row: dict[str, Any], num_visible: int,
    num_hidden: int, solution: str,
) -> None:  # fmt: skip
    problem = read(row)
    assert (len(problem.visible), len(problem.hidden)) == (num_visible, num_hidden)
    assert all(case.hidden for case in problem.hidden)
    assert not any(case.hidden for case in problem.visible)
    reward = await judge_problem(problem, solution or problem.solution, sandbox)
    assert (reward.value, reward.parts["visible"]) == (1.0, 1.0)
    assert (await judge_problem(problem, "pass", sandbox)).value == 0.0


def test_what_a_prompt_defines_besides_the_open_function_is_its_preamble(
    read: Callable[..., Problem],
) -> None:
    problem = read(HUMAN_EVAL)
    assert problem.preamble == "import math\n\ndef one():\n    return 1"
    assert problem.statement == 'Complete this function:\ndef twice(x):\n    """ Double it.\n    """\n'
    assert problem.solution == "def twice(x):\n    return x * 2 * one()\n"


@pytest.mark.parametrize(("visible", "shown"), [(0, 0), (2, 2), (99, 3)])
def test_a_number_of_first_tests_is_visible_and_one_at_least_stays_hidden(
    read: Callable[..., Problem], visible: int, shown: int
) -> None:
    problem = read(MBPP, visible)
    assert (len(problem.visible), len(problem.hidden)) == (shown, 4 - shown)


def without(row: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != field}


@pytest.mark.parametrize(
    ("row", "layout", "field"),
    [
        (without(HUMAN_EVAL, "prompt"), "auto", "prompt"),
        ({**HUMAN_EVAL, "prompt": "def twice("}, "auto", "prompt"),
        ({**HUMAN_EVAL, "entry_point": "thrice"}, "auto", "prompt"),
        ({**HUMAN_EVAL, "test": "def check(candidate):\n    pass"}, "auto", "test"),
        ({**HUMAN_EVAL, "test": "def check("}, "auto", "test"),
        ({**HUMAN_EVAL, "test": 7}, "auto", "test"),
        (without(MBPP, "text"), "auto", "text"),
        ({**MBPP, "test_list": []}, "auto", "test_list"),
        ({**MBPP, "test_list": "assert largest(1, 2) == 2"}, "auto", "test_list"),
        ({**MBPP, "test_list": ["assert True"]}, "auto", "test_list"),
        ({**APPS, "input_output": "{"}, "auto", "input_output"),
        ({**APPS, "input_output": "[]"}, "auto", "input_output"),
        ({**APPS, "input_output": json.dumps({"inputs": ["1"], "outputs": []})}, "auto", "input_output"),
        ({**APPS, "input_output": json.dumps({"inputs": [], "outputs": []})}, "auto", "input_output"),
        ({**APPS, "input_output": json.dumps({"inputs": [3], "outputs": ["3"]})}, "auto", "input_output"),
        (live("not base64!"), "auto", "private_test_cases"),
        (live(base64.b64encode(b"junk").decode()), "auto", "private_test_cases"),
        (live(base64.b64encode(zlib.compress(pickle.dumps(print))).decode()), "auto", "private_test_cases"),
        (live(json.dumps([{"input": "1"}])), "auto", "private_test_cases"),
        ({**live(json.dumps(TESTS)), "metadata": "{"}, "auto", "metadata"),
        ({"problem": {"name": "x"}}, "auto", "problem"),
        ({"prompt": "?"}, "apps", "input_output"),
    ],
)
def test_a_malformed_row_names_file_row_and_field(
    read: Callable[..., Problem], row: dict[str, Any], layout: Layout, field: str
) -> None:
    with pytest.raises(RowError, match=rf"rows.jsonl, row 1, field '{field}'"):
        read(row, layout=layout)


def test_a_row_of_no_known_layout_and_a_line_that_is_no_json_are_named(
    read: Callable[..., Problem], tmp_path: Path
) -> None:
    with pytest.raises(RowError, match=r"row 1: is of no known layout, its fields are a.*layout"):
        read({"a": 1})
    path = tmp_path / "broken.jsonl"
    path.write_text(json.dumps(MBPP) + "\n{\n")
    with pytest.raises(RowError, match=r"broken.jsonl, row 2: is not JSON"):
        problems(str(path), "auto", "examples", place=Place("", ""))
    with pytest.raises(ConfigError, match=r"there is no file 'none\.jsonl'"):
        problems("none.jsonl", "auto", "examples", place=Place("", "domains.0"))


class Armed:
    """Something that acts when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return open, ("/nonexistent/unpickled", "w")  # type: ignore[return-value]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_text_is_read_and_everything_else_refused_unexecuted(protocol: int) -> None:
    for text in ("", "text", "x" * 300, "ä\n\u2028"):
        assert text_of_pickle(pickle.dumps(text, protocol)) == text
    for other in (Armed(), ["text"], ("a", "b"), 7, None, b"bytes"):
        with pytest.raises(ValueError, match="holds"):
            text_of_pickle(pickle.dumps(other, protocol))
