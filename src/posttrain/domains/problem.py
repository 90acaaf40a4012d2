"""A programming problem with visible and hidden tests, and how a task carries it as plain JSON.

Every domain of code speaks in these terms: readers of data sets and mined packages make problems, and
verifiers, self-repair and the integrity layer read them back from `Task.reference`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.errors import InputError
from posttrain.protocols import Case, Program
from posttrain.sandbox import plain
from posttrain.types import JSON, Task

_FUTURE = re.compile(r"^from __future__ import [\w, ]+", re.MULTILINE)
_FIELDS = ("function", "arguments", "keywords", "stdin", "comparator", "expected")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to program, with the tests that judge it.

    `statement` is what the policy reads, without any test. `function` is what cases call; None means
    a program that reads standard input. `preamble` is trusted code put before every candidate:
    imports and definitions that the statement promises. `solution` is a right answer, to stand after
    the preamble, or ''. `visible` cases may be shown; `hidden` ones never leave `Task.reference`.
    """

    name: str
    statement: str
    function: str | None
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    preamble: str = ""
    solution: str = ""
    language: str = "python"

    def program(self, source: str) -> Program:
        """Return what runs for a source: the preamble before it, imports from the future first."""
        if not self.preamble:
            return Program(self.language, source)
        first = "".join(f"{line}\n" for line in _FUTURE.findall(source))
        return Program(self.language, f"{first}{self.preamble}\n{_FUTURE.sub('', source)}")

    def reference(self) -> dict[str, JSON]:
        """Return all of it as plain JSON for `Task.reference`; `answer` is the solution."""
        return {
            "answer": self.solution,
            "problem": {
                "name": self.name,
                "statement": self.statement,
                "function": self.function,
                "preamble": self.preamble,
                "language": self.language,
                "visible": [case_to_json(case) for case in self.visible],
                "hidden": [case_to_json(case) for case in self.hidden],
            },
        }

    @classmethod
    def of(cls, task: Task) -> Problem:
        """Return the problem that a task carries; InputError where it carries none."""
        own = task.reference.get("problem")
        if not isinstance(own, Mapping):
            raise InputError(
                f"task {task.id!r} carries no programming problem: reference['problem'] is missing. Make it "
                "with Problem.reference()."
            )
        return cls(
            name=own["name"],
            statement=own["statement"],
            function=own["function"],
            visible=tuple(case_of_json(case, hidden=False) for case in own["visible"]),
            hidden=tuple(case_of_json(case, hidden=True) for case in own["hidden"]),
            preamble=own["preamble"],
            solution=str(task.reference.get("answer", "")),
            language=own["language"],
        )


def case_to_json(case: Case) -> dict[str, JSON]:
    """Return a case as JSON that keeps tuples, sets, bytes and special numbers apart.

    Raises TypeError or ValueError where it holds what is not plain data.
    """
    found: dict[str, JSON] = {}
    for name in _FIELDS:
        value: Any = getattr(case, name)
        value = dict(value) if name == "keywords" else value
        found[name] = json.loads(plain.dumps(value))
    return found


def case_of_json(found: Mapping[str, Any], *, hidden: bool) -> Case:
    """Return the case that `case_to_json` wrote; ValueError where it is none."""
    values = {name: plain.loads(json.dumps(found[name]).encode("ascii")) for name in _FIELDS}
    return Case(**values, hidden=hidden)
