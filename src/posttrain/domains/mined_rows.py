"""The directory that `posttrain mine` writes and the domain `mined` reads: one problem a row.

`tasks.jsonl` holds a row for each problem: name, split, level, source and `Problem.reference()`.
`report.json` beside it tells what was taken and what was left.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from posttrain.domains.problem import Problem, case_of_json
from posttrain.errors import InputError, RowError
from posttrain.types import JSON, Message, Split, Task

TASKS = "tasks.jsonl"
REPORT = "report.json"
LEVELS = 4
EVAL_SHARE = 0.2
_TEXTS = ("name", "statement", "function", "preamble", "language")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a problem comes from: package, its version and licence, module and line."""

    package: str
    version: str
    licence: str
    module: str
    line: int


@dataclass(frozen=True, slots=True)
class Mined:
    """A problem with its split, its level (0 is the easiest) and where it comes from."""

    problem: Problem
    split: Split
    level: int
    source: Source

    def to_row(self) -> dict[str, JSON]:
        """Return the row of `tasks.jsonl`."""
        return {
            "name": self.problem.name,
            "split": self.split,
            "level": self.level,
            "source": asdict(self.source),
            "reference": self.problem.reference(),
        }


def split_of(function: str) -> Split:
    """Return the split of a function's name: functions of one name stay together across packages."""
    digest = hashlib.sha256(function.strip("_").lower().encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < EVAL_SHARE * 2**64 else "train"


def read(folder: Path) -> list[Mined]:
    """Return the problems of a directory, in order; RowError names the row and field that are wrong."""
    path = folder / TASKS
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        hint = "Write it with: posttrain mine PACKAGE --out DIR"
        raise InputError(f"{path}: cannot be read ({error.strerror}). {hint}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text ({error.reason} at byte {error.start}).") from None
    found = [_Row(path, number, line).mined() for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InputError(f"{path}: has no rows. Mine a package with doctests.")
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the file, read field by field."""

    path: Path
    number: int
    line: str

    def mined(self) -> Mined:
        """Return what the line holds."""
        try:
            row = json.loads(self.line)
        except ValueError as error:
            raise self.wrong("", f"is no JSON ({error})") from None
        if not isinstance(row, dict):
            raise self.wrong("", "is no JSON object")
        level = self.get(row, "level", int)
        if not 0 <= level < LEVELS:
            raise self.wrong("level", f"{level} is none of 0 … {LEVELS - 1}")
        split = self.get(row, "split", str)
        if split not in get_args(Split):
            raise self.wrong("split", f"{split!r} is neither 'train' nor 'eval'")
        problem = self._problem(self.get(row, "reference", dict))
        return Mined(problem, split, level, self._source(self.get(row, "source", dict)))

    def get(self, row: Mapping[str, Any], name: str, kind: type, within: str = "") -> Any:
        """Return a field's value, which must be exactly of this type."""
        label = f"{within}.{name}" if within else name
        if name not in row:
            raise self.wrong(label, "is missing")
        if type(row[name]) is not kind:
            raise self.wrong(label, f"is {type(row[name]).__name__}, expected {kind.__name__}")
        return row[name]

    def wrong(self, field: str, problem: str) -> RowError:
        """Return the error that names this row."""
        return RowError(problem, path=self.path, row=self.number, field=field, hint="Mine the package again")

    def _source(self, found: Mapping[str, Any]) -> Source:
        names = ("package", "version", "licence", "module")
        package, version, licence, module = (self.get(found, name, str, "source") for name in names)
        return Source(package, version, licence, module, self.get(found, "line", int, "source"))

    def _problem(self, reference: Mapping[str, Any]) -> Problem:
        own = self.get(reference, "problem", dict, "reference")
        answer = self.get(reference, "answer", str, "reference")
        where = "reference.problem"
        for name in _TEXTS:
            self.get(own, name, str, where)
        for name in ("visible", "hidden"):
            for index, case in enumerate(self.get(own, name, list, where)):
                self._check_case(case, f"{where}.{name}[{index}]")
        if not own["hidden"]:
            raise self.wrong(f"{where}.hidden", "is empty, so every answer would pass")
        task = Task("", "", 0, (Message("user", ""),), {"answer": answer, "problem": own})
        return Problem.of(task)

    def _check_case(self, case: Any, label: str) -> None:
        try:
            case_of_json(case, hidden=True)
        except KeyError as error:
            raise self.wrong(f"{label}.{error.args[0]}", "is missing") from None
        except (TypeError, ValueError) as error:
            raise self.wrong(label, f"is no case ({error})") from None
