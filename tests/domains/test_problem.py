"""A problem travels through a task's reference unchanged."""

import json

import pytest

from posttrain.domains.problem import Problem, case_of_json, case_to_json
from posttrain.errors import InputError
from posttrain.protocols import Case
from posttrain.types import Message, Task

AWKWARD = [
    Case((1, 2.0, True, None), "f", ([1], (1,), {"a": {1, 2}}), {"key": frozenset({"x"})}, b"\xff"),
    Case(float("inf"), "f", (10**40, -0.0, b"bytes"), comparator="float:1e-6"),
    Case("text\ud800", None, stdin=b"1\n", comparator="token"),
    Case(["ValueError"], "f", ({1: {2: "three"}},), comparator="raises"),
]


@pytest.mark.parametrize("case", AWKWARD)
def test_a_case_survives_json_with_every_type_kept(case: Case) -> None:
    again = case_of_json(json.loads(json.dumps(case_to_json(case))), hidden=case.hidden)
    assert again == case
    assert repr(again) == repr(case)


def test_a_problem_comes_back_from_its_task() -> None:
    problem = Problem(
        "double", "Write double.", "double", (Case(2, "double", (1,), hidden=False),),
        (Case(4, "double", (2,)),), "import math", "def double(x): return 2 * x",
    )  # fmt: skip
    task = Task("t", "d", 0, (Message("user", "?"),), json.loads(json.dumps(problem.reference())))
    assert Problem.of(task) == problem
    assert problem.program("x = 1").source == "import math\nx = 1"


def test_imports_from_the_future_stay_first_and_lines_keep_their_numbers() -> None:
    problem = Problem("f", "", "f", (), (), preamble="import math")
    source = problem.program('"""Text."""\nfrom __future__ import annotations\nx = math.pi').source
    assert source == 'from __future__ import annotations\nimport math\n"""Text."""\n\nx = math.pi'
    exec(compile(source, "candidate", "exec"), {})


def test_a_task_without_a_problem_is_named() -> None:
    with pytest.raises(InputError, match="'t' carries no programming problem"):
        Problem.of(Task("t", "d", 0, (Message("user", "?"),), {}))
