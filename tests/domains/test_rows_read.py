"""Reading rows: equal cells from every kind of file, and errors that name file, row and field."""

from __future__ import annotations

import datetime
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from posttrain.config.wording import Place
from posttrain.domains import rows_read
from posttrain.domains.rows import rows
from posttrain.domains.rows_open import open_tables
from posttrain.domains.rows_read import Joined, JsonLines, Parquet
from posttrain.errors import ConfigError, InputError, RowError

CHAT = [{"role": "system", "content": "Count."}, {"role": "user", "content": "What comes after 3?"}]
CELLS: list[dict[str, Any]] = [
    {"prompt": CHAT, "answer": str(n), "extra_info": {"index": n, "tags": ["a", "b"]}} for n in range(25)
]


def json_lines(path: Path, cells: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in cells))
    return path


def parquet(path: Path, cells: list[dict[str, Any]], group: int = 4) -> Path:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(cells), path, row_group_size=group)
    return path


def opened(source: str | Path, columns: Sequence[str] = (), split: str = "train") -> Joined:
    return open_tables(str(source), columns, split=split, subset="", place=Place("", "data"))


def saved(path: Path, cells: list[dict[str, Any]]) -> Path:
    datasets.Dataset.from_list(cells).save_to_disk(str(path))
    return path


def test_every_kind_of_source_gives_the_same_rows(tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": datasets.Dataset.from_list(CELLS)})
    both.save_to_disk(str(tmp_path / "dict"))
    sources = (
        json_lines(tmp_path / "a.jsonl", CELLS),
        parquet(tmp_path / "a.parquet", CELLS),
        saved(tmp_path / "saved", CELLS),
        tmp_path / "dict",
    )
    for source in sources:
        table = opened(source)
        assert len(table) == 25
        assert list(table.scan()) == CELLS
        assert [table.row(n) for n in (24, 0, 7, 4)] == [CELLS[n] for n in (24, 0, 7, 4)]


def test_a_hub_id_goes_to_the_datasets_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(name: str, subset: str | None, *, split: str) -> datasets.Dataset:
        asked.append((name, subset, split))
        return datasets.Dataset.from_list(CELLS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    table = open_tables("owner/data", (), split="test", subset="main", place=Place("", "data"))
    assert asked == [("owner/data", "main", "test")]
    assert table.tables[0].name == "owner/data (test)"
    assert table.row(3) == CELLS[3]


def test_what_the_hub_refuses_names_the_file_that_is_not_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*_: object, **__: object) -> None:
        raise ConnectionError("no network\nmore")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(ConfigError, match=r"data: there is no file 'mydata', and the hub .*: no network$"):
        opened("mydata")


def test_several_sources_follow_each_other_and_rows_say_which(tmp_path: Path) -> None:
    one, two = json_lines(tmp_path / "1.jsonl", CELLS[:3]), parquet(tmp_path / "2.parquet", CELLS[3:8])
    table = open_tables((str(one), str(two)), (), split="", subset="", place=Place("", "data"))
    assert [table.row(n) for n in range(len(table))] == CELLS[:8]
    assert [table.label(n) for n in (0, 2, 3, 7)] == ["1:1", "1:3", "2:1", "2:5"]


def test_only_the_columns_asked_for_are_read_from_parquet(tmp_path: Path) -> None:
    table = opened(parquet(tmp_path / "a.parquet", CELLS), ("answer",))
    assert table.row(5) == {"answer": "5"}


def test_parquet_holds_a_bounded_number_of_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "a.parquet", CELLS)
    largest = max(pyarrow.parquet.ParquetFile(path).metadata.row_group(n).total_byte_size for n in range(7))
    monkeypatch.setattr(rows_read, "HELD_BYTES", 2 * largest)
    table = Parquet.open(path)
    for n in range(25):
        assert table.row(n) == CELLS[n]
    assert table.group.cache_info().currsize == 2  # type: ignore[attr-defined]


def test_json_lines_hold_eight_bytes_a_row(tmp_path: Path) -> None:
    table = JsonLines.open(json_lines(tmp_path / "a.jsonl", CELLS * 40))
    assert (len(table), table.offsets.itemsize) == (1_000, 8)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n \n"])
def test_empty_lines_at_the_end_are_no_rows(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + ('{"prompt": "ä"}\r\n{"prompt": "b"}' + ending).encode())
    table = JsonLines.open(path)
    assert list(table.scan()) == [{"prompt": "ä"}, {"prompt": "b"}]
    assert table.row(0) == {"prompt": "ä"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", "the line is empty"),
        ("{", "is not JSON: Expecting"),
        ("[1]", "is a JSON list, not an object"),
        ('"text"', "is a JSON str, not an object"),
        ('{"prompt": NaN}', "is not JSON: NaN is no JSON number; write null"),
        ('{"prompt": "\udcff"}', "is not JSON: .*utf-8"),
        ("[" * 100_000, "is not JSON: maximum recursion"),
    ],
)
def test_a_malformed_line_names_file_and_row(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "bad.jsonl"
    text = f'{{"prompt": "a", "answer": "b"}}\n{line}\n{{"prompt": "c", "answer": "d"}}\n'
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(RowError, match=rf"bad\.jsonl, row 2: {problem}"):
        rows(str(path), reward="exact:answer")


def test_a_file_that_changes_under_a_run_is_noticed(tmp_path: Path) -> None:
    for path in (json_lines(tmp_path / "a.jsonl", CELLS), parquet(tmp_path / "a.parquet", CELLS)):
        table = opened(path)
        with path.open("ab") as file:
            file.write(b"\n")
        with pytest.raises(InputError, match="was changed while it was in use"):
            table.row(0)


def test_threads_read_rows_of_one_table_without_mixing_them(tmp_path: Path) -> None:
    tables = [opened(json_lines(tmp_path / "a.jsonl", CELLS)), opened(parquet(tmp_path / "a.parquet", CELLS))]
    wrong: list[int] = []

    def read(start: int) -> None:
        wrong.extend(
            n % 25 for n in range(start, start + 50) for t in tables if t.row(n % 25) != CELLS[n % 25]
        )

    threads = [threading.Thread(target=read, args=(n * 7,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_paths_start_at_the_configurations_folder_then_at_the_working_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "work").mkdir()
    json_lines(tmp_path / "conf" / "a.jsonl", CELLS[:1])
    json_lines(tmp_path / "work" / "a.jsonl", CELLS[:2])
    json_lines(tmp_path / "work" / "b.jsonl", CELLS[:3])
    monkeypatch.chdir(tmp_path / "work")
    place = Place(str(tmp_path / "conf" / "run.toml"), "data")
    lengths = [len(open_tables(n, (), split="", subset="", place=place)) for n in ("a.jsonl", "b.jsonl")]
    assert lengths == [1, 3]
    with pytest.raises(ConfigError, match=r"run\.toml: data: there is no file 'c\.jsonl'.*conf and .*work"):
        open_tables("c.jsonl", (), split="", subset="", place=place)


def test_a_source_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "folder").mkdir()
    for name, problem in (
        ("broken.parquet", "cannot be read as Parquet"),
        ("notes.txt", "is of no known kind. Known endings: .jsonl"),
        ("empty.jsonl", "has no rows"),
        ("folder", "is not a saved data set"),
        ("no/such/file", "there is no file"),
    ):
        with pytest.raises(ConfigError, match=problem):
            opened(tmp_path / name)


def test_a_split_that_a_saved_data_set_lacks_is_spelt_right(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": datasets.Dataset.from_list(CELLS)}).save_to_disk(str(tmp_path / "d"))
    with pytest.raises(ConfigError, match=r"has no split 'trian'. Did you mean 'train'"):
        opened(tmp_path / "d", split="trian")


@pytest.mark.parametrize(
    ("module", "name", "hint"),
    [
        ("pyarrow.parquet", "a.parquet", r"needs the package pyarrow.*pip install 'posttrain\[tasks\]'"),
        ("datasets", "owner/data", r"other data needs the package datasets.*pip install datasets"),
    ],
)
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str, hint: str
) -> None:
    parquet(tmp_path / "a.parquet", CELLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=hint):
        opened(name)


def test_cells_that_json_has_no_form_for_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    day = datetime.date(2026, 1, 2)
    cells = [{"prompt": f"q{n}", "answer": "1", "made": day} for n in range(30)]
    path = str(parquet(tmp_path / "a.parquet", cells))
    with pytest.raises(InputError, match=r"a\.parquet, row 1, field 'made': holds a date.*with `columns`"):
        rows(path, reward="exact:answer")
    domain = rows(path, reward="exact:answer", columns=("answer",))
    assert domain.task("train", 0, 0).reference["columns"] == {"answer": "1"}
