"""Where rows come from: JSON Lines, Parquet and Hugging Face data sets, each read one row at a time.

What is held in memory: 8 bytes a row of JSON Lines; of Parquet the row groups read last, up to about
256 MB; of a Hugging Face data set what its library maps. Rows are numbered from 0 here, from 1 in errors.
"""

from __future__ import annotations

import functools
import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from posttrain.errors import ConfigError, InputError, RowError

Cells = Mapping[str, Any]
"""One row as it was read: column → value."""
HELD_BYTES = 256 * 2**20
"""How much of a Parquet file is held, counted as its footer does; at least one row group is."""
BATCH_ROWS = 1_000


class Table(Protocol):
    """Rows that can be read in order and one by one."""

    @property
    def name(self) -> str:
        """Return what errors call it: a path or the id of a data set."""
        ...

    def __len__(self) -> int: ...

    def row(self, number: int) -> Cells:
        """Return one row; raise RowError where it cannot be read."""
        ...

    def scan(self) -> Iterator[Cells | RowError]:
        """Give every row in order, or in its place what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True)
class JsonLines:
    """A file with one JSON object on each line; where each begins is held, its text is not."""

    path: Path
    offsets: array[int]
    stamp: tuple[int, int]

    @classmethod
    def open(cls, path: Path) -> JsonLines:
        """Return the table of a file, its lines counted."""
        offsets, offset, end = array("Q"), 0, 0
        with path.open("rb") as file:
            for line in file:
                offsets.append(offset)
                offset += len(line)
                # Empty lines at the end are no rows; in between they are malformed ones.
                end = len(offsets) if line.strip() else end
        return cls(path, offsets[:end], _stamp(path))

    @property
    def name(self) -> str:
        return str(self.path)

    def __len__(self) -> int:
        return len(self.offsets)

    def row(self, number: int) -> Cells:
        """Return one row; raise InputError if the file is no longer what it was."""
        _check_unchanged(self.path, self.stamp)
        with self.path.open("rb") as file:
            file.seek(self.offsets[number])
            return self._parsed(file.readline(), number)

    def scan(self) -> Iterator[Cells | RowError]:
        """Give every row in order, or in its place what is wrong with it."""
        with self.path.open("rb") as file:
            for number in range(len(self)):
                try:
                    yield self._parsed(file.readline(), number)
                except RowError as error:
                    yield error

    def _parsed(self, line: bytes, number: int) -> Cells:
        def wrong(problem: str) -> RowError:
            hint = "Each line holds one JSON object"
            return RowError(problem, path=self.path, row=number + 1, hint=hint)

        if not line.strip():
            raise wrong("the line is empty")
        try:
            found = _DECODER.decode(line.decode().lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise wrong(f"is not JSON: {error}") from error
        if not isinstance(found, dict):
            raise wrong(f"is a JSON {type(found).__name__}, not an object")
        return found


@dataclass(frozen=True, slots=True)
class Parquet:
    """A Parquet file; `starts` are the first rows of its row groups and, last, the number of rows."""

    path: Path
    starts: tuple[int, ...]
    group: Callable[[int], Any]
    stamp: tuple[int, int]

    @classmethod
    def open(cls, path: Path, columns: Sequence[str] = ()) -> Parquet:
        """Return the table of a file with these columns, all of them if none is named."""
        file = _parquet().ParquetFile(path)
        metadata, known = file.metadata, file.schema_arrow.names
        chosen = [name for name in columns if name in known] or known
        groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
        largest = max((group.total_byte_size for group in groups), default=1)

        @functools.lru_cache(maxsize=max(1, HELD_BYTES // max(1, largest)))
        def group(number: int) -> Any:
            # Opened anew each time, so that no file stays open and threads share nothing.
            return _parquet().ParquetFile(path, metadata=metadata).read_row_group(number, chosen)

        starts = tuple(accumulate((each.num_rows for each in groups), initial=0))
        return cls(path, starts, group, _stamp(path))

    @property
    def name(self) -> str:
        return str(self.path)

    def __len__(self) -> int:
        return self.starts[-1]

    def row(self, number: int) -> Cells:
        """Return one row; raise InputError if the file is no longer what it was."""
        _check_unchanged(self.path, self.stamp)
        group = bisect_right(self.starts, number) - 1
        cells: Cells = self.group(group).slice(number - self.starts[group], 1).to_pylist()[0]
        return cells

    def scan(self) -> Iterator[Cells | RowError]:
        """Give every row in order."""
        for group in range(len(self.starts) - 1):
            for batch in self.group(group).to_batches(max_chunksize=BATCH_ROWS):
                yield from batch.to_pylist()


@dataclass(frozen=True, slots=True)
class Mapped:
    """A data set of Hugging Face's `datasets`, which maps its files into memory."""

    name: str
    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, number: int) -> Cells:
        """Return one row."""
        return dict(self.rows[number])

    def scan(self) -> Iterator[Cells | RowError]:
        """Give every row in order."""
        yield from map(dict, self.rows)


@dataclass(frozen=True, slots=True)
class Joined:
    """Several tables one after the other; a row is named by its table and its number there."""

    tables: tuple[Table, ...]

    @property
    def name(self) -> str:
        return " + ".join(table.name for table in self.tables)

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def find(self, number: int) -> tuple[int, int]:
        """Return which table a row is in, and its number there."""
        for place, table in enumerate(self.tables):
            if number < len(table):
                return place, number
            number -= len(table)
        raise IndexError(number)

    def row(self, number: int) -> Cells:
        """Return one row."""
        place, inside = self.find(number)
        return self.tables[place].row(inside)

    def scan(self) -> Iterator[Cells | RowError]:
        """Give every row in order, or in its place what is wrong with it."""
        for table in self.tables:
            yield from table.scan()

    def label(self, number: int) -> str:
        """Return a row's number from 1, after that of its table where there are several."""
        place, inside = self.find(number)
        return f"{inside + 1}" if len(self.tables) == 1 else f"{place + 1}:{inside + 1}"


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        hint = "Install it: pip install 'posttrain[tasks]'."
        raise ConfigError("reading Parquet needs the package pyarrow", hint=hint) from error
    return pyarrow.parquet


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[int, int]) -> None:
    if _stamp(path) != stamp:
        raise InputError(f"{path} was changed while it was in use. Start again, or train on a copy of it.")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number; write null")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
