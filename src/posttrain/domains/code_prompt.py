"""What the policy reads of a programming problem: the statement, and visible tests as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.protocols import Case
from posttrain.sandbox.verdict.compare import VIEWS

INSTRUCTION = "Answer with Python code only."
OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "is not")
MAX_CHARACTERS = 4_000
"""Of the visible tests so much is shown; those that do not fit are left out whole."""


def prompt_of(problem: Problem, instruction: str = INSTRUCTION) -> str:
    """Return the prompt: statement, preamble, visible tests, and the form that is wanted."""
    parts = [problem.statement.strip()]
    if problem.preamble.strip():
        parts.append(f"This code stands before yours:\n{problem.preamble.strip()}")
    if problem.function is None:
        parts.append("The program reads standard input and prints to standard output.")
    if shown := tests_as_text(problem.visible):
        parts.append(f"Examples:\n{shown}")
    return "\n\n".join([*parts, instruction] if instruction else parts)


def tests_as_text(cases: Iterable[Case]) -> str:
    """Return cases as text, in order, as long as there is room."""
    lines: list[str] = []
    left = MAX_CHARACTERS
    for case in cases:
        text = case_as_text(case)
        if len(text) <= left:
            lines.append(text)
            left -= len(text)
    return "\n".join(lines)


def case_as_text(case: Case) -> str:
    """Return a case as an assertion, or as sample input and output."""
    if case.function is None:
        return f"Input:\n{_text(case.stdin).rstrip()}\nOutput:\n{_text(case.expected).rstrip()}"
    if case.comparator == "asserts":
        found = case.expected["test"] if isinstance(case.expected, dict) else case.expected
        return str(found).strip()
    return _claim(call_as_text(case), case.comparator, case.expected)


def call_as_text(case: Case) -> str:
    """Return the call of a case as source."""
    words = [repr(argument) for argument in case.arguments]
    words += [f"{name}={value!r}" for name, value in case.keywords.items()]
    return f"{case.function}({', '.join(words)})"


def _claim(call: str, comparator: str, expected: Any) -> str:
    """Return what is claimed of a call, as an assertion where Python has words for it."""
    view, _, rest = comparator.partition(" ")
    if view in VIEWS and rest and comparator not in OPERATORS:
        return _claim(f"{view}({call})", rest, expected)
    if comparator == "exact":
        return f"assert {call} == {expected!r}"
    if comparator in OPERATORS:
        return f"assert {call} {comparator} {expected!r}"
    if comparator in ("truthy", "falsy"):
        return f"assert {'' if comparator == 'truthy' else 'not '}{call}"
    if comparator == "contains":
        return f"assert {expected!r} in {call}"
    if comparator == "raises":
        names = (expected,) if isinstance(expected, str) else expected
        return f"# {call} raises {' or '.join(map(str, names))}"
    if comparator == "custom":
        return f"# {call} is judged by a checker"
    kind, _, numbers = comparator.partition(":")
    words = {"unordered": "in any order", "token": "but for white space", "lines": "line by line"}
    how = words.get(kind) or f"within {numbers or '1e-6'}"
    return f"# {call} == {expected!r}, {how}"


def _text(content: object) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else str(content)
