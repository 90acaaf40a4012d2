"""The append-only files that follow a run's state: how far they had come, and cutting them back to there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from posttrain.errors import RunFolderError
from posttrain.records import durable

FOLLOWING = ("metrics.jsonl", "domains.jsonl", "ledger.jsonl")
"""Files that follow the state; `groups/*.jsonl` do too. events.jsonl is history and only ever grows."""


def positions(folder: Path) -> dict[str, int]:
    """Return the length in bytes of each file of a run folder that follows the state."""
    return {name: (folder / name).stat().st_size for name in _names(folder)}


def rewind(folder: Path, wanted: Mapping[str, int]) -> list[str]:
    """Cut the files back to the `wanted` lengths, 0 where not named; return a line for each file cut.

    What is cut off is made durable under superseded/<number>/ first, so that a crash loses nothing. Groups
    that the user has removed are named in a line. Raises RunFolderError, before any cut, if another file is
    shorter than wanted.
    """
    lines = _check_reached(folder, wanted)
    target = next_superseded(folder)
    for name in _names(folder):
        path, kept = folder / name, wanted.get(name, 0)
        tail = _read_from(path, kept)
        if tail:
            durable.create_file(target / name, tail)
            lines.append(f"{name}: {len(tail)} bytes after the checkpoint moved to superseded/{target.name}")
        if name not in wanted:
            path.unlink()
            durable.sync_folder(path.parent)
        elif tail:
            _truncate(path, kept)
    return lines


def next_superseded(folder: Path) -> Path:
    """Return the folder, not made yet, for what the run gives up next."""
    taken = [int(path.name) for path in folder.glob("superseded/*") if re.fullmatch(r"\d+", path.name)]
    return folder / "superseded" / f"{max(taken, default=0) + 1:03d}"


def _names(folder: Path) -> list[str]:
    groups = sorted(path.relative_to(folder).as_posix() for path in folder.glob("groups/step-*.jsonl"))
    return [*(name for name in FOLLOWING if (folder / name).exists()), *groups]


def _check_reached(folder: Path, wanted: Mapping[str, int]) -> list[str]:
    removed = []
    for name, position in wanted.items():
        path = folder / name
        if name.startswith("groups/") and not path.exists():
            removed.append(f"{name}: removed since the checkpoint")
            continue
        size = path.stat().st_size if path.exists() else 0
        if size < position:
            raise RunFolderError(
                f"{path}: {size} bytes, but the checkpoint was made when it had {position}. "
                "Restore the file from a copy; its records belong to the run."
            )
    return removed


def _read_from(path: Path, position: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read()


def _truncate(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.truncate(position)
        os.fsync(file.fileno())
