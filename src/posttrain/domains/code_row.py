"""One row of a data set of problems: its cells by type, and errors that name file, row and field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.errors import InputError, RowError
from posttrain.protocols import Case
from posttrain.sandbox.verdict import asserts


@dataclass(frozen=True, slots=True)
class Row:
    """A row's cells, and where they stand: `number` counts from 1."""

    cells: Mapping[str, Any]
    path: str
    number: int

    def wrong(self, problem: str, field: str = "", hint: str = "") -> RowError:
        """Return the error for something wrong in this row."""
        return RowError(problem, path=self.path, row=self.number, field=field, hint=hint)

    def text(self, *names: str, default: str | None = None) -> str:
        """Return the text of the first of these fields that the row has."""
        for name in names:
            if self.cells.get(name) is not None:
                found = self.cells[name]
                if not isinstance(found, str):
                    raise self.wrong(f"is {type(found).__name__}, expected text", name)
                return found
        if default is None:
            raise self.wrong("is missing", names[0], f"Expected text in {' or '.join(names)}")
        return default

    def texts(self, name: str) -> list[str]:
        """Return the texts of a list; [] where the field is missing."""
        found = self.cells.get(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise self.wrong(f"is {found!r:.60}, expected a list of texts", name)
        return found

    def name(self, *names: str) -> str:
        """Return what identifies the row: the first of these fields, text or a number, or its number."""
        found = next((self.cells[name] for name in names if self.cells.get(name) not in (None, "")), None)
        return f"row-{self.number}" if found is None else str(found)

    def json(self, name: str, default: str = "") -> Any:
        """Return the JSON that stands in a field as text, or as itself."""
        found = self.cells.get(name)
        if found is not None and not isinstance(found, str):
            return found
        try:
            return json.loads(self.text(name, default=default or None))
        except (ValueError, RecursionError) as error:
            raise self.wrong(f"is not JSON: {error}", name) from None

    def cases(self, test: str, function: str, preamble: str, field: str) -> tuple[Case, ...]:
        """Return the cases of test code, naming the field where it is no such code."""
        try:
            return asserts.read(test, function, preamble)
        except InputError as error:
            raise self.wrong(str(error).rstrip("."), field) from None


def parted(
    problem: Problem, shown: tuple[Case, ...], tests: tuple[Case, ...], num_first: int, row: Row, field: str
) -> Problem:
    """Return a problem whose visible cases are `shown` and the first so many tests; the rest is hidden.

    A hidden test that asks the same as a visible one is left out, and so is an example that tests
    contradict. One test at least stays hidden.
    """
    if not tests:
        raise row.wrong("holds no test", field)
    first = tests[: min(num_first, len(tests) - 1)]
    shown = tuple(case for case in shown if not _contradicted(case, tests))
    seen = {question(case) for case in (*shown, *first)}
    hidden = tuple(case for case in tests[len(first) :] if question(case) not in seen) or tests[len(first) :]
    kept = {question(case) for case in hidden}
    visible = tuple(case for case in (*shown, *first) if question(case) not in kept)
    return _with(problem, visible, hidden)


def _contradicted(case: Case, tests: tuple[Case, ...]) -> bool:
    """Tell whether a test asks the same as an example and wants something else: the example is wrong."""
    same = [test for test in tests if question(test) == question(case)]
    return (
        bool(same)
        and all(test.comparator == case.comparator != "asserts" for test in same)
        and not any(test.expected == case.expected for test in same)
    )


def question(case: Case) -> str:
    """Return what a case asks, as text that equal questions share."""
    kind = case.expected if case.comparator == "asserts" else None
    return repr((case.function, case.arguments, sorted(case.keywords.items()), case.stdin, kind))


def _with(problem: Problem, visible: tuple[Case, ...], hidden: tuple[Case, ...]) -> Problem:
    return replace(
        problem,
        visible=tuple(replace(case, hidden=False) for case in visible),
        hidden=tuple(replace(case, hidden=True) for case in hidden),
    )
