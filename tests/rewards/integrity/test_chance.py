"""What a constant, the input itself, or a memory of the visible tests would earn, against counts by hand."""

import pytest

from posttrain.protocols import Case
from posttrain.rewards.integrity.chance import baseline, distance, is_no_better


def calls(*pairs: tuple[object, object]) -> list[Case]:
    return [Case(expected, "f", (given,)) for given, expected in pairs]


def test_the_best_constant_sets_the_baseline() -> None:
    unseen = calls((3, True), (4, False), (5, True), (8, True))
    assert baseline([], unseen) == 0.75


def test_giving_the_input_back_sets_the_baseline() -> None:
    unseen = calls(("a", "a"), ("b", "b"), ("c", "C"))
    assert baseline([], unseen) == pytest.approx(2 / 3)


def test_a_memory_of_the_nearest_visible_test_sets_the_baseline() -> None:
    visible = calls((10, "low"), (1000, "high"))
    unseen = calls((11, "low"), (12, "low"), (990, "high"), (1010, "high"), (500, "middle"))
    assert baseline(visible, unseen) == 0.8


def test_without_unseen_tests_there_is_no_baseline() -> None:
    assert baseline(calls((1, 1)), []) == 0.0


def test_an_answer_has_to_be_better_than_chance_by_so_many_deviations() -> None:
    # One deviation of 16 cases at chance 1/2 is 1/8.
    assert is_no_better(0.62, 0.5, 16, 1.0)
    assert not is_no_better(0.63, 0.5, 16, 1.0)
    assert is_no_better(0.5, 0.5, 16, 0.0)
    assert not is_no_better(1.0, 1.0, 3, 5.0)  # a full share always is better


def test_values_are_as_far_apart_as_they_differ() -> None:
    assert distance(5, 5) == 0
    assert distance([1, 2, 3], [1, 2, 4]) < distance([1, 2, 3], [9, 9, 9])
    assert distance("abc", "abd") < distance("abc", "xyz")
    assert distance(1, "1") == 1
