"""Extraction and exact comparison of short answers."""

import doctest
from decimal import Decimal

import pytest

from posttrain.rewards import match
from posttrain.rewards.match import exact, extract_answer, normalise, number


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("15", "15"),
        ("7 + 8 is easy.\n\n15\n", "15"),
        (r"first \boxed{3}, then \boxed{15}", "15"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ("<answer>3</answer> no, <answer>\n15 </answer>", "15"),
        ("The answer is 15", "15"),
        ("Answer: 15", "15"),
        ("**Answer:** 15", "15"),
        ("the answer is: 3. The final answer is 15\nThanks!", "15"),
        ("I do not know", "I do not know"),
        ("The answer is", "The answer is"),
        ("", ""),
        (" \n ", ""),
        (r"\boxed{15", r"\boxed{15"),
    ],
)
def test_the_last_announced_answer_or_else_the_last_line_is_the_answer(text: str, answer: str) -> None:
    assert extract_answer(text) == answer


def test_an_answer_of_several_lines_is_the_closing_lines() -> None:
    assert extract_answer("Here it is:\n1 2\n3 4\n", num_lines=2) == "1 2\n3 4"
    assert extract_answer("answer:\n1 2\n3 4\nDone", num_lines=2) == "1 2\n3 4"


@pytest.mark.parametrize(
    "answer", ["Yes", " Yes. ", "**Yes**", "'Yes'", '"Yes."', "$Yes$", "`Yes`", "**Yes.**"]
)
def test_wrappers_a_period_and_white_space_do_not_matter(answer: str) -> None:
    assert normalise(answer) == "Yes"
    assert exact(answer, "Yes") == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("3.0", "3"),
        ("+3", "3"),
        ("1,000", "1000"),
        ("1000", "1,000"),
        ("-2.50", "-2.5"),
        ("0.0", "0"),
        ("15.", "15"),
    ],
)
def test_numbers_are_equal_by_value(answer: str, gold: str) -> None:
    assert exact(answer, gold) == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("3.01", "3"),
        ("3", "-3"),
        ("0110", "110"),
        ("1,00", "100"),
        ("30e-1", "3"),
        ("1/2", "0.5"),
        ("0.1", "0.10000000000000001"),
        ("٣", "3"),
        ("yes", "Yes"),
        ("", ""),
        ("", "3"),
        ("I do not know", "3"),
        ("3 4", "3"),
        (" ".join(map(str, range(200))), "3"),
        ("2 + 1", "3"),
        ("__import__('os')", "3"),
    ],
)
def test_anything_else_earns_nothing(answer: str, gold: str) -> None:
    assert exact(answer, gold) == 0.0


def test_quotes_that_belong_to_the_answer_stay() -> None:
    assert normalise("'a' and 'b'") == "'a' and 'b'"
    assert exact("['9', '4']", "['9', '4']") == 1.0


def test_numbers_are_exact_decimals() -> None:
    assert number("-1,234.50") == Decimal("-1234.5")
    assert number("12a") is None
    assert number("") is None


def test_hostile_text_is_read_in_bounded_time() -> None:
    for piece in ("<answer>", "\\boxed{", "answer  ", "$", "'"):
        extract_answer(piece * 100_000)
        exact(extract_answer(piece * 100_000), "3")


def test_the_last_closed_tag_counts_whatever_is_left_open() -> None:
    assert extract_answer("<answer>3</answer> no, <ANSWER> 4 </Answer> or <answer>5") == "4"
    assert extract_answer("<answer>a<answer>b</answer>") == "b"
    assert extract_answer("</answer>\n7") == "7"


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(match).failed == 0
