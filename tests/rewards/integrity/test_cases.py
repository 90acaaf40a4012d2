"""Values that are the same share a key, and only what is particular carries bits."""

import pytest

from posttrain.protocols import Case
from posttrain.rewards.integrity.cases import ORDINARY, bits, key, question, without_examples, words_of


def test_keys_tell_types_apart_but_not_the_order_of_sets_and_tables() -> None:
    assert len({key(1), key(1.0), key(True), key("1"), key([1]), key((1,))}) == 6
    assert key({1: "a", 2: "b"}) == key({2: "b", 1: "a"})
    assert key({"x", "y", "z"}) == key({"z", "y", "x"})
    assert key(10**5000) != key(10**5000 + 1)


@pytest.mark.parametrize("value", ORDINARY)
def test_what_any_program_may_name_carries_nothing(value: object) -> None:
    assert bits(value) == 0


def test_more_particular_values_carry_more() -> None:
    assert 0 < bits(7) < bits(1_000) < bits(10**9)
    assert bits("cat") == 9
    assert bits([7, 8]) > bits(7) + bits(8)
    assert bits([0, 1]) == 2  # the two are ordinary, that they stand together is not


def test_what_the_statement_names_carries_nothing() -> None:
    known = words_of("Return 'NO WAY' above 1000, else f(2.5).")
    assert [bits(value, known) for value in ("NO WAY", 1000, 2.5, -1000)] == [0, 0, 0, 0]
    assert bits("NEVER", known) > 0
    assert bits(1001, known) > 0


def test_examples_in_a_statement_explain_nothing() -> None:
    statement = "def f(name):\n    Say 'Yes' to a name that ends in txt.\n    f('example.txt')  # => 'Yes'\n"
    assert "example" not in without_examples(statement, "f")
    assert bits("example.txt", words_of(without_examples(statement, "f"))) == 24  # but for the known "txt"
    assert without_examples("Print f(2).", None) == "Print f(2)."


def test_questions_are_equal_if_all_that_is_given_is() -> None:
    assert question(Case(1, "f", (2,))) == question(Case(9, "f", (2,), comparator="=="))
    assert question(Case(1, "f", (2,))) != question(Case(1, "f", (2.0,)))
    assert question(Case("", stdin=b"1")) != question(Case("", stdin=b"2"))
