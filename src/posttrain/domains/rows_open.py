"""From what a configuration says to a table: a file by its name's ending, a saved data set, a hub id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posttrain.config.wording import Place, meant
from posttrain.domains.rows_read import Joined, JsonLines, Mapped, Parquet, Table
from posttrain.errors import ConfigError

JSON_LINES = (".jsonl", ".ndjson", ".json")
PARQUET = (".parquet", ".pq")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def open_tables(
    sources: str | Sequence[str], columns: Sequence[str], *, split: str, subset: str, place: Place
) -> Joined:
    """Return the rows of one or several sources, in order.

    A path is looked for in the configuration's folder, then in the working directory. `split` and `subset`
    choose from Hugging Face data sets and mean nothing to files. Raises ConfigError.
    """
    names = (sources,) if isinstance(sources, str) else tuple(sources)
    if not names:
        raise place.error("names no file and no data set", "Give a path or the id of a data set")
    tables = tuple(_open(name, columns, split, subset, place) for name in names)
    if not sum(map(len, tables)):
        raise place.error(f"{', '.join(names)}: has no rows", "Choose another file or split")
    return Joined(tables)


def _open(name: str, columns: Sequence[str], split: str, subset: str, place: Place) -> Table:
    path = _locate(name, place)
    suffix = Path(name).suffix.lower()
    if path is None:
        if suffix in (*JSON_LINES, *PARQUET) or not _HUB_ID.fullmatch(name):
            places = " and ".join(dict.fromkeys(map(str, _folders(place))))
            raise place.error(f"there is no file {name!r}", f"Looked in {places}")
        return _from_hub(name, columns, split, subset, place)
    if path.is_dir():
        return _saved(path, columns, split, place)
    if suffix in JSON_LINES:
        return JsonLines.open(path)
    if suffix in PARQUET:
        return _parquet(path, columns, place)
    known = ", ".join((*JSON_LINES, *PARQUET))
    hint = f"Known endings: {known}; or give the folder of a saved data set"
    raise place.error(f"{name!r} is of no known kind", hint)


def _folders(place: Place) -> list[Path]:
    beside = [Path(place.source).resolve().parent] if place.source else []
    return [*beside, Path.cwd()]


def _locate(name: str, place: Place) -> Path | None:
    path = Path(name).expanduser()
    tried = (folder / path for folder in _folders(place))
    return next((found for found in tried if found.exists()), None)


def _parquet(path: Path, columns: Sequence[str], place: Place) -> Table:
    try:
        return Parquet.open(path, columns)
    except ConfigError as error:
        raise place.error(str(error)) from error
    except (OSError, ValueError) as error:  # pyarrow's errors are both
        raise place.error(f"{path} cannot be read as Parquet: {error}") from error


def _saved(path: Path, columns: Sequence[str], split: str, place: Place) -> Table:
    library = _datasets(str(path), place)
    found = _asked(lambda: library.load_from_disk(str(path)), f"{path} is not a saved data set", place)
    if isinstance(found, Mapping):
        if split not in found:
            hint = meant(split, map(str, found), "It has")
            raise place.error(f"{path} has no split {split!r}", hint)
        found = found[split]
    return Mapped(str(path), _chosen(found, columns))


def _from_hub(name: str, columns: Sequence[str], split: str, subset: str, place: Place) -> Table:
    library = _datasets(name, place)
    problem = f"there is no file {name!r}, and the hub gives no split {split!r} of a data set of this name"
    found = _asked(lambda: library.load_dataset(name, subset or None, split=split), problem, place)
    return Mapped(f"{name} ({split})", _chosen(found, columns))


def _asked(work: Callable[[], Any], problem: str, place: Place) -> Any:
    try:
        return work()
    except Exception as error:  # the library raises errors of many packages
        said = next(iter(str(error).splitlines()), "")
        raise place.error(f"{problem}: {type(error).__name__}: {said}") from error


def _chosen(rows: Any, columns: Sequence[str]) -> Any:
    known = [name for name in columns if name in rows.column_names]
    return rows.select_columns(known) if known else rows


def _datasets(name: str, place: Place) -> Any:
    try:
        import datasets
    except ImportError as error:
        problem = f"{name!r} is no JSON Lines or Parquet file, and other data needs the package datasets"
        raise place.error(problem, "Check the path, or run: pip install datasets") from error
    return datasets
