"""Rows of mined problems come back as they were written; malformed ones are named with row and field."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.domains.mined import mined
from posttrain.domains.mined_rows import Mined, Source, read, split_of
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, InputError, RowError
from posttrain.protocols import Case
from posttrain.types import Split

SOURCE = Source("pkg", "1.0", "MIT", "pkg.mod", 3)


def row(name: str, split: Split = "train", level: int = 0) -> Mined:
    problem = Problem(
        name, "Write f.", "f", (Case(1, "f", (0,), hidden=False),), (Case((2,), "f", (1,)),), "", "s"
    )
    return Mined(problem, split, level, SOURCE)


def write(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "tasks.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    rows = [row("a"), row("b", "eval", 3)]
    write(tmp_path, *(each.to_row() for each in rows))
    assert read(tmp_path) == rows


def drop(*path: Any) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        *outer, last = path
        for part in outer:
            found = found[part]
        del found[last]

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (drop("split"), "split"),
        (lambda found: found.update(split="test"), "split"),
        (lambda found: found.update(level=4), "level"),
        (lambda found: found.update(level="0"), "level"),
        (drop("source", "licence"), "source.licence"),
        (drop("reference", "answer"), "reference.answer"),
        (drop("reference", "problem", "hidden"), "reference.problem.hidden"),
        (lambda found: found["reference"]["problem"]["hidden"].clear(), "reference.problem.hidden"),
        (drop("reference", "problem", "hidden", 0, "expected"), "reference.problem.hidden[0].expected"),
        (
            lambda found: found["reference"]["problem"]["hidden"][0].update(expected={"odd": 1}),
            "reference.problem.hidden[0]",
        ),
        (lambda found: found["reference"]["problem"].update(visible=[1]), "reference.problem.visible[0]"),
    ],
)
def test_a_malformed_row_names_file_row_and_field(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], field: str
) -> None:
    broken = json.loads(json.dumps(row("b").to_row()))
    change(broken)
    write(tmp_path, row("a").to_row(), broken)
    with pytest.raises(RowError) as caught:
        read(tmp_path)
    assert f"{tmp_path / 'tasks.jsonl'}, row 2, field {field!r}: " in str(caught.value)


def test_other_files_are_errors_with_a_next_step(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="posttrain mine PACKAGE"):
        read(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("{\n")
    with pytest.raises(RowError, match="row 1: is no JSON"):
        read(tmp_path)
    (tmp_path / "tasks.jsonl").write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="no UTF-8"):
        read(tmp_path)
    (tmp_path / "tasks.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no rows"):
        read(tmp_path)


def test_levels_without_one_of_the_splits_are_joined(tmp_path: Path) -> None:
    rows = [row("a"), row("b", level=1), row("c", "eval", 1), row("d", level=2)]
    write(tmp_path, *(each.to_row() for each in rows))
    domain = mined(str(tmp_path))
    assert domain.levels == 1
    assert (domain.size("train", 0), domain.size("eval", 0)) == (3, 1)
    write(tmp_path, *(each.to_row() for each in [*rows, row("e", "eval", 0)]))
    assert mined(str(tmp_path)).levels == 2


def test_nothing_to_hold_out_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, row("a").to_row())
    with pytest.raises(ConfigError, match="none is for eval"):
        mined(str(tmp_path))


def test_prompts_show_visible_cases_only(tmp_path: Path) -> None:
    write(tmp_path, row("a").to_row(), row("b", "eval").to_row())
    (message,) = mined(str(tmp_path)).task("train", 0, 0).prompt
    assert "assert f(0) == 1" in message.content
    assert "(2,)" not in message.content


def test_functions_of_one_name_stay_in_one_split() -> None:
    assert split_of("_take") == split_of("take") == split_of("Take")
    share = sum(split_of(f"function{n}") == "eval" for n in range(2000)) / 2000
    assert abs(share - 0.2) < 0.05
