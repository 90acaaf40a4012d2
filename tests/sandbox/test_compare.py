"""Comparators against hand-worked pairs and Python's own operators."""
# ruff: noqa: E501 (lines of the tables)

import doctest
import itertools
import math
import operator
from typing import Any

import pytest

from posttrain.sandbox.verdict import compare
from posttrain.sandbox.verdict.compare import canonical, find, matches, same

NAN, INF = float("nan"), float("inf")
BIG = 10**400

ATOMS = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    0.0,
    1.0,
    NAN,
    INF,
    -INF,
    1j,
    1 + 0j,
    "",
    "1",
    "a",
    b"",
    b"a",
    bytearray(b"a"),
    "\ud800",
]
VALUES = [
    *ATOMS, [], (), set(), frozenset(), {}, [1], (1,), {1}, frozenset({1}), {1: 1}, [True], [1.0], {True}, {1.0}, {1: True},
    {True: 1}, {1: 1.0}, {"a": None}, [[]], [()], [1, 2], [2, 1], (1, 2), {1: 1, 2: 2}, [NAN], {"a": [NAN]}, range(2),
    frozenset({(1,)}), {(1,): "x"}, {(True,): "x"}, "int 0x1", "[1]", [1, [2]], [[1], 2],
]  # fmt: skip


def test_no_value_is_the_same_as_another_of_the_table() -> None:
    for (i, a), (j, b) in itertools.product(enumerate(VALUES), repeat=2):
        assert same(a, b) == (i == j), (a, b)
        assert (canonical(a) == canonical(b)) == (i == j), (a, b)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (0.0, -0.0), (-0.0, 0.0), ([NAN], [-NAN]), ({1, 2, 3}, {3, 2, 1}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (complex(0.0, -0.0), complex(-0.0, 0.0)), (complex(NAN, 1), complex(NAN, 1)), ({"a": {1: (2.0, "x")}}, {"a": {1: (2.0, "x")}}),
        ({NAN}, {float("nan")}), ({NAN: 1}, {float("nan"): 1}), (BIG, BIG), ({(0.0,): 1}, {(-0.0,): 1}),
    ],
)  # fmt: skip
def test_what_differs_in_identity_order_or_a_zeros_sign_is_the_same(expected: Any, answer: Any) -> None:
    assert same(expected, answer)
    assert canonical(expected) == canonical(answer)


def test_exact_does_not_take_a_bool_for_an_int_or_an_int_for_a_float_anywhere() -> None:
    for wrong in (True, 1.0, "1", 1 + 0j, None):
        for wrap in (
            lambda v: v,
            lambda v: [v],
            lambda v: (v,),
            lambda v: {v},
            lambda v: {v: 0},
            lambda v: {0: v},
            lambda v: [[(v,)]],
        ):
            assert not matches("exact", wrap(1), wrap(wrong))


YES, NO = True, False
TABLE: list[tuple[str, Any, Any, bool]] = [
    ("float:0.01", 1.0, 1.0099, YES), ("float:0.01", 1.0, 0.9901, YES), ("float:0.01", 1.0, 1.0101, NO), ("float:0.01", 100.0, 101.0, YES),
    ("float:0.01", 100.0, 101.1, NO), ("float:0.01", 0.001, 0.0109, YES), ("float:0.01", -100.0, -99.0, YES), ("float:0", 0.5, 0.5, YES),
    ("float:0", 0.5, math.nextafter(0.5, 1), NO), ("float", 1.0, 1 + 9e-7, YES), ("float", 1.0, 1 + 2e-6, NO),
    ("float:0.01", 1.0, 1, YES), ("float:0.01", 1, 1.0, YES), ("float:0.01", 1, 1.001, YES), ("float:0.01", 1, True, NO),
    ("float:0.01", True, 1, NO), ("float:0.01", True, 1.0, NO), ("float:0.01", True, True, YES), ("float:0.01", 1000, 1001, NO),
    ("float:0.01", 1000, 1001.0, YES), ("float:0.01", NAN, NAN, YES), ("float:0.01", NAN, 0.0, NO), ("float:0.01", 0.0, NAN, NO),
    ("float:0.01", INF, INF, YES), ("float:0.01", INF, -INF, NO), ("float:0.01", INF, 1e308, NO), ("float:0.01", 1e308, INF, NO),
    ("float:0.01", 1.0, INF, NO), ("float:0.01", BIG, BIG, YES), ("float:0.01", BIG, 1.0, NO), ("float:0.01", 1.0, BIG, NO),
    ("float:0.01", "1.0", 1.0, NO), ("float:0.01", 1.0, "1.0", NO), ("float:0.01", "a", "a", YES), ("float:0.01", None, 0.0, NO),
    ("float:0.01", [1.0, [2.0]], [1.001, [1.99]], YES), ("float:0.01", [1.0], (1.0,), NO), ("float:0.01", [1.0, 2.0], [1.0], NO),
    ("float:0.01", [1.0], [1.0, 2.0], NO), ("float:0.01", {"a": 1.0}, {"a": 1.001}, YES), ("float:0.01", {"a": 1.0}, {"b": 1.0}, NO),
    ("float:0.01", {"a": 1.0}, {"a": 1.0, "b": 1.0}, NO), ("float:0.01", {1.0}, {1.001}, NO), ("float:0.01", [1.0, NAN], [1.0, 2.0], NO),
    ("float:0.01", 1j, 1.001j, YES), ("float:0.01", 1j, 1.0, NO), ("float:0.01", 1.0, 1.001 + 0.001j, YES),
    ("float:0.01", b"1.0 x 2\n", b"1.001\nx  2.001", YES), ("float:0.01", b"1.0 x", b"1.0 y", NO), ("float:0.01", b"1.0", b"1.0 1.0", NO),
    ("float:0.01", b"1000", b"1001", NO), ("float:0.01", b"1000", b"1001.0", YES), ("float:0.01", b"7", b"007", YES),
    ("float:0.01", b"1.0", b"1_0", NO), ("float:0.01", b"1.0", "١".encode(), NO), ("float:0.01", b"1.0", b"1" * 500, NO),
    ("float:0.01", b"nan", b"nan", YES), ("float:0.01", b"1.0", b"nan", NO), ("float:0.01", b"1.0", b"inf", NO), ("float:0.01", b"inf", b"1e9999", YES),
    ("float:0.01", b"1e308", b"1e999", NO), ("float:0.01", b"0x10", b"16", NO), ("float:0.01", b".5", b"0.5", YES), ("float:0.01", b"5.", b"5", YES),
    ("token", "a b\nc", " a\tb c\n", YES), ("token", b"a b", "a  b", YES), ("token", "ab", "a b", NO), ("token", "a b", "b a", NO),
    ("token", "1", 1, NO), ("token", "1", None, NO), ("token", "nan", "NaN", NO), ("token", "", " \n", YES), ("token", "a", "a\0", NO),
    ("token", "1", "１", NO), ("token", "a", "a\u00a0", NO),
    ("lines", b"1\n2\n", b"1\n2", YES), ("lines", b"1\n2\n", b"1 \r\n2\t\n\n\n", YES), ("lines", b"1\n2\n", b"1\n\n2\n", NO), ("lines", b"1", b" 1", NO),
    ("lines", b"1", b"\n1", NO), ("lines", b"1\n", b"1\n1\n", NO), ("lines", b"1\n2", b"1", NO), ("lines", b"1", b"1\n2", NO), ("lines", b"", b"\n \n", YES),
    ("lines", "ä\n", "ä".encode(), YES), ("lines", b"1", b"1\0", NO), ("lines", b"a\x0bb", b"a\nb", NO), ("lines", b"a\x85b", b"a\nb", NO),
    ("lines", "a", ["a"], NO), ("lines", b"\xff", b"\xfe", NO), ("lines", "1\u20282", "1\n2", NO),
    ("unordered", [1, 2, 2], [2, 1, 2], YES), ("unordered", [1, 2, 2], [1, 1, 2], NO), ("unordered", [1], [1, 1], NO), ("unordered", [1, 2], [True, 2], NO),
    ("unordered", [1], (1,), NO), ("unordered", [], {}, NO), ("unordered", [], set(), NO), ("unordered", [[1, 2], [3]], [[3], [1, 2]], YES),
    ("unordered", [[1, 2]], [[2, 1]], NO), ("unordered", [{"a": 1}, {1}], [{1}, {"a": 1}], YES), ("unordered", [NAN, 1.0], [1.0, NAN], YES),
    ("unordered", {1, 2}, {2, 1}, YES), ("unordered", b"a\nb\n", b"b\na", YES), ("unordered", b"a\nb\n", b"b\nb", NO), ("unordered", "ab", "ba", NO),
    ("unordered", [0.0], [-0.0], YES), ("unordered", 1, 1, YES), ("unordered", [1], iter([1]), NO), ("unordered", ["1"], [1], NO),
    ("exact", b"1\n", b"1\n", YES), ("exact", b"1\n", b"1", NO), ("exact", "1", b"1", NO), ("exact", [1], iter([1]), NO), ("exact", range(2), [0, 1], NO),
    ("is", True, True, YES), ("is", True, 1, NO), ("is", None, None, YES), ("is", None, False, NO), ("is not", None, 0, YES), ("is not", None, None, NO),
    ("contains", 1, [1, 2], YES), ("contains", 3, [1, 2], NO), ("contains", "a", "bab", YES), ("contains", "a", 1, NO), ("contains", 1, {1: 2}, YES),
    ("truthy", None, 1, YES), ("truthy", None, [], NO), ("truthy", None, None, NO), ("truthy", None, "no", YES), ("truthy", None, NAN, YES),
    ("falsy", None, 0, YES), ("falsy", None, [0], NO), ("falsy", None, "", YES), ("falsy", None, None, YES),
    ("isclose:1e-9,0.0", 1.0, 1 + 1e-10, YES), ("isclose:1e-9,0.0", 1.0, 1 + 1e-8, NO), ("isclose:0,0.5", 1, 1.5, YES), ("isclose:0,0.5", 1.0, "1.0", NO),
    ("isclose:1e-9,0.0", NAN, NAN, NO), ("isclose:1e-9,0.0", 1.0, BIG, NO), ("isclose:1e-9,0.0", 1.0, [1.0], NO), ("isclose:1e-9,0.0", INF, INF, YES),
    ("within:0.5", 1, 1.5, YES), ("within:0.5", 1, 1.6, NO), ("within:0.5", 1.0, NAN, NO), ("within:0.5", 1.0, [1.0], NO), ("within:0.5", 1.0, None, NO),
    ("within:0.5", {1}, {1}, NO), ("within:0.5", BIG, 1.0, NO), ("within:0.5", 1.0, "1", NO), ("within:0.5", INF, INF, NO),
    ("set ==", {1, 2}, [2, 1, 2], YES), ("set ==", {1, 2}, (1,), NO), ("set ==", {1, 2}, iter([1, 2]), YES), ("set ==", {1}, [[1]], NO), ("set ==", {1}, 1, NO),
    ("sorted ==", [1, 2], (2, 1), YES), ("sorted ==", [1, 2], [1, "a"], NO), ("tuple ==", (1, 2), [1, 2], YES), ("list ==", ["a", "b"], "ab", YES),
    ("len ==", 2, "ab", YES), ("len ==", 2, 5, NO), ("sum <", 4, [1, 2], YES), ("abs ==", 2, -2, YES), ("len ==", 2, iter([1, 2]), NO),
    ("sorted exact", [1], [True], NO), ("frozenset ==", frozenset({1}), [1], YES), ("bool is", True, [0], YES),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "answer", "verdict"), TABLE)
def test_a_verdict_is_as_worked_out_by_hand(name: str, expected: Any, answer: Any, verdict: bool) -> None:
    assert matches(name, expected, answer) is verdict


OPERATORS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b, "contains": lambda a, b: b in a,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_says_what_python_says_and_no_where_python_refuses(name: str) -> None:
    for expected, answer in itertools.product(VALUES, repeat=2):
        try:
            verdict = bool(OPERATORS[name](answer, expected))
        except (TypeError, ValueError):
            verdict = False
        assert matches(name, expected, answer) is verdict, (expected, answer)


@pytest.mark.parametrize(
    "name",
    ["", "eq", "Exact", "exact:", "exact:1", "float:", "float:x", "float:-1", "float:nan", "float:inf", "float:1,2", "isclose:1",
     "isclose", "within", "within:-1", "set", "set ", "set set", "open ==", "set  ==", "== ", "not  in", "custom", "raises", "float :1"],
)  # fmt: skip
def test_a_comparator_that_there_is_not_is_named_with_those_that_there_are(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not known: choose one of exact, token, lines, unordered, =="
    ) as caught:
        find(name)
    assert repr(name.partition(" ")[2] if name.startswith("set ") and name != "set " else name) in str(
        caught.value
    )


def test_an_answer_nested_far_deeper_than_expected_is_another_one() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    for name in ("exact", "float", "unordered", "==", "set ==", "sorted =="):
        assert not matches(name, [1], deep)
    assert matches("!=", [1], deep)


def test_colliding_elements_cost_an_answer_its_verdict_and_no_time() -> None:
    answer = [n * (2**61 - 1) for n in range(20_000)]
    assert not matches("set ==", {1}, answer)
    assert not matches("frozenset ==", frozenset({1}), [(n,) for n in answer])
    assert not matches("unordered", list(range(20_000)), answer)


def test_the_examples_are_right() -> None:
    assert doctest.testmod(compare).failed == 0
