"""Mutated inputs are new, of the same make, and a function of their key."""

import pytest

from posttrain.protocols import Case
from posttrain.rewards.integrity.cases import question
from posttrain.rewards.integrity.mutate import mutants, neighbours


def calls(*rows: tuple[object, ...]) -> list[Case]:
    return [Case(None, "f", row) for row in rows]


def given(cases: list[Case], number: int = 40, seed: str = "s") -> list[tuple[object, ...]]:
    return [case.arguments for case in mutants(cases, number, seed, "f")]


def test_mutants_are_new_all_different_and_keyed() -> None:
    cases = calls(("hello", 3), ("brown fox", 7), ("xyz", 5))
    found = mutants(cases, 30, "epoch 1", "f")
    assert len(found) == 30
    asked = {question(case) for case in found}
    assert len(asked) == 30
    assert asked.isdisjoint(map(question, cases))
    assert found == mutants(cases, 30, "epoch 1", "f")
    assert found != mutants(cases, 30, "epoch 2", "f")


def test_numbers_stay_in_the_range_seen_or_a_little_above() -> None:
    for (number,) in given(calls((0,), (5,), (40,))):
        assert isinstance(number, int)
        assert 0 <= number <= 50
    assert all(-3 <= value[0] <= -1 for value in given(calls((-1,), (-3,))))  # type: ignore[operator]


def test_sorted_lists_stay_sorted_and_different_elements_different() -> None:
    for (items,) in given(calls(([1, 4, 9],), ([2, 3, 5, 8],))):
        assert isinstance(items, list)
        assert items == sorted(set(items))


def test_equal_lengths_and_counts_within_lengths_stay_so() -> None:
    for one, other, count in given(calls(([1, 2], [3, 4], 1), ([5, 6, 7], [8, 9, 1], 3))):
        assert len(one) == len(other)  # type: ignore[arg-type]
        assert count <= len(one)  # type: ignore[arg-type,operator]


def test_texts_of_a_vocabulary_keep_their_words() -> None:
    cases = calls(("one three two",), ("three one",), ("two two one three",))
    for (text,) in given(cases):
        assert isinstance(text, str)
        assert set(text.split()) <= {"one", "two", "three"}


def test_brackets_are_put_together_whole() -> None:
    for (text,) in given(calls(("(())",), ("()()",), ("(()())",))):
        assert isinstance(text, str)
        assert text.count("(") == text.count(")")
        assert ")" not in text[:1]


def test_tables_stay_rectangular() -> None:
    for (rows,) in given(calls(([[1, 2], [3, 4]],), ([[5, 6, 7], [8, 9, 1]],))):
        assert isinstance(rows, list)
        assert len({len(row) for row in rows}) == 1


@pytest.mark.parametrize("value", [True, 2.5, b"abc", {"a": 1}, {3, 4}, (1, 2), frozenset("ab"), "7-8"])
def test_every_kind_of_value_stays_of_its_kind(value: object) -> None:
    found = given(calls((value, 100), (value, 200)), 10)
    assert len(found) == 10
    assert all(type(one) is type(value) for one, _ in found)


def test_constants_change_in_cases_that_are_code() -> None:
    case = Case([1], "evaluate", ("import io", "list(f(iter([1, 2, 3]), 2))"))
    found = mutants([case], 8, "s", "f")
    assert len(found) == 8
    for mutant in found:
        assert mutant.arguments[0] == "import io"
        assert "f(iter(" in mutant.arguments[1]


def test_numbers_change_in_what_programs_read() -> None:
    found = mutants([Case("3\n", stdin=b"1 2\n"), Case("11\n", stdin=b"5 6\n")], 6, "s", None)
    assert len(found) == 6
    assert all(len(case.stdin.split()) == 2 and case.stdin.split()[0].isdigit() for case in found)


def test_neighbours_are_near_the_one_case() -> None:
    cases = calls(("abcdef", 3), ("uvwxyz", 900))
    near = neighbours(cases[0], cases, 6, "s", "f")
    assert near
    for case in near:
        assert (
            case.arguments[0] == "abcdef"
            or case.arguments[1] == 3
            or len(set(case.arguments[0]) & set("abcdef")) > 2
        )


def test_cases_that_expect_an_exception_or_a_checker_are_no_start() -> None:
    assert mutants([Case(["ValueError"], "f", (1,), comparator="raises")], 5, "s", "f") == []
    assert mutants([Case("assert f(1)", "f", comparator="asserts")], 5, "s", "f") == []
