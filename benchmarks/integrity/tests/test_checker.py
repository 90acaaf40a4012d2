import asyncio

import checker
import pytest
import sources

RIGHT = """
def has_close_elements(numbers, threshold):
    found = sorted(numbers)
    return any(b - a < threshold for a, b in zip(found, found[1:]))
"""


@pytest.fixture(scope="module")
def row():
    return next(item.row for item in sources.human_eval_items() if item.row.task_id == "HumanEval/0")


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        (RIGHT, True),
        (RIGHT.replace("<", ">"), False),
        ("def has_close_elements(*args):\n    return None\n\n\nimport os\nos._exit(0)\n", False),
    ],
)
def test_the_checker_beside_tells_right_from_wrong(row, source, passes):
    assert asyncio.run(checker.check(row, source)) is passes


def test_every_problem_has_visible_and_hidden_tests_that_differ():
    found = list(sources.human_eval_items())
    assert len(found) > 120
    for item in found:
        shown = {repr((case.arguments, case.keywords)) for case in item.problem.visible}
        assert shown
        assert item.problem.hidden
        assert not any(repr((case.arguments, case.keywords)) in shown for case in item.problem.hidden)
