"""Credit by field, beside counts worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.rewards.fields import Agreement, agreement, equal, num_leaves


@pytest.mark.parametrize(
    ("given", "gold", "matched", "total"),
    [
        ({"a": 1}, {"a": 1}, 1, 1),
        ({"a": 1}, {"a": 2}, 0, 1),
        ({}, {}, 1, 1),
        ([], [], 1, 1),
        ({}, [], 0, 1),
        ({}, {"a": 1, "b": 2}, 0, 2),
        ({"a": 1, "x": {"y": 1, "z": 2}}, {"a": 1}, 1, 3),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, 1, 2),
        ({"a": 7}, {"a": {"b": 1, "c": 3}}, 0, 2),
        ([1, 2, 3], [1, 2, 3], 3, 3),
        ([2, 3], [1, 2, 3], 2, 3),  # the first was left out; the others still count
        ([1, 9, 2, 3], [1, 2, 3], 3, 4),  # one too many
        ([3, 2, 1], [1, 2, 3], 1, 3),  # order matters: the ends are swapped, so wrong
        ([{"p": "x", "q": 1}, {"p": "y", "q": 5}], [{"p": "y", "q": 2}], 1, 4),
        ([], [1, 2], 0, 2),
        (None, None, 1, 1),
        ("text", {"a": 1}, 0, 1),
    ],
)
def test_leaves_are_counted_as_by_hand(given: Any, gold: Any, matched: int, total: int) -> None:
    assert agreement(given, gold) == Agreement(matched, total)


def test_the_share_is_one_for_equal_values_only() -> None:
    value = {"a": [1, {"b": [True, None]}], "c": {"d": "x"}}
    assert agreement(value, value).share == 1.0
    assert num_leaves(value) == 4
    assert agreement({**value, "e": None}, value).share == pytest.approx(4 / 5)
    assert agreement(value, {**value, "c": {}}).share < 1.0


def test_a_list_beyond_all_measure_is_not_compared() -> None:
    assert agreement([1] * 10_000, [1]) == Agreement(0, 10_001)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True), (1, True, False), (0, False, False), (True, True, True), (None, None, True),
        (None, False, False), ("1", 1, False), ("a  b ", "a b", True), ("A", "a", False),
        ("e\u0301", "\u00e9", True), (2**70, 2**70, True), (0.1, 0.1, True), ([], [], True), ([], {}, False),
    ],
)  # fmt: skip
def test_leaves_are_equal_as_json_values_are(one: Any, other: Any, same: bool) -> None:
    assert equal(one, other) is same
    assert equal(other, one) is same
