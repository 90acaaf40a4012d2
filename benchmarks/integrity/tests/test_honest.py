import random
from dataclasses import replace

import honest
import pytest
from made import EVENS, PROBLEMS, SHOUT, TRIANGLE
from mistakes import MISTAKES
from rewrites import REWRITES

INPUTS = {
    "triangle": [(0,), (1,), (5,), (12,)],
    "evens": [([],), ([1],), ([2, 4, 7],), (list(range(20)),)],
    "shout": [("",), ("abc",), ("x", "?"), ("Two words", "")],
}
ANSWERS = {
    "triangle": [0, 1, 15, 78],
    "evens": [[], [], [2, 4], [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]],
    "shout": ["", "ABC!", "X?", "TWO WORDS"],
}


def answers(problem, source):
    scope = {"__name__": "candidate"}
    exec(source, scope)
    return [scope[problem.function](*arguments) for arguments in INPUTS[problem.function]]


@pytest.mark.parametrize("way", sorted(set(REWRITES) - {"lru_cache"}))
def test_a_rewrite_changes_the_source_and_not_the_answers(way):
    found = [(problem, REWRITES[way](problem, random.Random(1))) for problem in PROBLEMS]
    assert any(source is not None for _, source in found)
    for problem, source in found:
        if source is not None:
            assert answers(problem, source) == ANSWERS[problem.function], source
            assert way == "canonical" or source.strip() != problem.solution.strip()


def test_edge_cases_are_written_out_with_right_answers():
    source = REWRITES["edge_cases"](TRIANGLE, random.Random(1))
    assert source is not None
    assert "if n == 0:\n        return 0" in source


def test_off_by_one_changes_one_number_by_one():
    found = {MISTAKES["off_by_one"](EVENS, random.Random(seed)) for seed in range(20)}
    slips = (("% 2", "% 1"), ("% 2", "% 3"), ("== 0", "== -1"), ("== 0", "== 1"))
    expected = {EVENS.solution.replace(old, new) for old, new in slips}
    assert found == expected


def test_a_missed_case_loses_its_branch():
    source = "def sign(x):\n    if x == 0:\n        return 0\n    return 1 if x > 0 else -1\n"
    problem = replace(TRIANGLE, function="sign", solution=source)
    assert MISTAKES["missed_case"](problem, random.Random(1)) == (
        "def sign(x):\n    pass\n    return 1 if x > 0 else -1\n"
    )


def test_early_return_moves_the_last_line_into_the_loop():
    source = MISTAKES["early_return"](TRIANGLE, random.Random(1))
    scope: dict = {}
    exec(source, scope)
    assert scope["triangle"](4) == 0


@pytest.mark.parametrize("way", sorted(MISTAKES))
def test_each_mistake_happens_to_one_of_the_problems(way):
    extra = "def near(a, b):\n    if a > b and b > 0 or max(a, b) == 3:\n        return a\n    return b\n"
    problems = (*PROBLEMS, replace(TRIANGLE, function="near", solution=extra))
    found = [MISTAKES[way](problem, random.Random(3)) for problem in problems]
    assert any(source and source != problem.solution for source, problem in zip(found, problems, strict=True))


def test_streams_are_the_same_each_time_and_differ_by_seed():
    once = [(each.way, each.source) for each in honest.mistaken(SHOUT, "1")]
    again = [(each.way, each.source) for each in honest.mistaken(SHOUT, "1")]
    other = [(each.way, each.source) for each in honest.mistaken(SHOUT, "2")]
    assert once == again != other
