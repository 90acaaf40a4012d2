"""A run's folder: what the trainer writes and every other program reads (docs/reference/run-folder.md)."""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from posttrain.errors import RunFolderError
from posttrain.records import durable, fence, following, metrics
from posttrain.records.groups import write_groups
from posttrain.records.lock import FolderLock
from posttrain.records.store import FolderStore
from posttrain.types import Group

FORMAT = 1
"""Version of the folder's layout."""


@final
class RunFolder:
    """One run on disk; made by `create` and `resume` for its one writer, by `open` for readers."""

    __slots__ = ("_files", "_lock", "_writer", "checkpoints", "path", "run")

    def __init__(self, path: Path, run: Mapping[str, Any], lock: FolderLock | None) -> None:
        self.path, self.run = path, run
        self.checkpoints = FolderStore(path / "checkpoints")
        self._files: dict[str, metrics.JsonLines] = {}
        self._lock = lock
        self._writer: int | None = None

    # --- opening and closing -------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path | str, config: Mapping[str, Any], identity: Mapping[str, Any]) -> RunFolder:
        """Make a new folder for a run, for writing.

        `config` is the resolved config; `identity` is what else the run depends on (see
        `environment.describe_environment`) and the level of exactness it can promise.
        Raises RunFolderError if the folder holds anything or cannot be written.
        """
        path = Path(path)
        with _explained(path):
            _check_empty(path)
            durable.make_folder(path)
            lock = FolderLock(path)
            try:
                _check_empty(path)
                run = _write_run(path, config, identity)
            except BaseException:
                lock.release()
                raise
        return cls(path, run, lock)

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Open a run for reading, beside its trainer if there is one; raise RunFolderError if it is none."""
        path = Path(path)
        return cls(path, _read_run(path), None)

    @classmethod
    def resume(cls, path: Path | str) -> RunFolder:
        """Open a run for writing; raise RunFolderError if it is none or another trainer writes to it."""
        path = Path(path)
        run = _read_run(path)
        with _explained(path):
            folder = cls(path, run, FolderLock(path))
            durable.sweep(path)
        return folder

    def close(self) -> None:
        """Make everything written durable and let go of the lock."""
        self._close_files()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what is in it -------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return str(self.run["run_id"])

    @property
    def adapter(self) -> Path:
        """Return the folder for the trained adapter."""
        return self.path / "adapter"

    @property
    def config(self) -> dict[str, Any]:
        """Return the resolved config that the run uses now."""
        return _read_json(self.path / "config.json")

    @property
    def writer(self) -> int:
        """Return this writer's fence number, once `claim` has taken it."""
        assert self._writer is not None, "claim(step) comes before the first checkpoint"
        return self._writer

    def claim(self, step: int = -1) -> int:
        """Take this writer's fence number; `step` is the checkpoint it continues from (-1: none)."""
        self._check_writing()
        self._writer = fence.claim(self.checkpoints, step)
        return self._writer

    # --- appending -----------------------------------------------------------------------------------

    def record_step(self, row: Mapping[str, Any]) -> None:
        """Append a step's metrics; names are those of STEP_METRICS, or `loss.<component>`."""
        metrics.check_names(row, metrics.STEP_METRICS)
        self._append("metrics.jsonl", row)

    def record_domains(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append a step's metrics per domain; names are those of DOMAIN_METRICS."""
        for row in rows:
            metrics.check_names(row, metrics.DOMAIN_METRICS)
            self._append("domains.jsonl", row)

    def record_ledger(self, line: Mapping[str, Any]) -> None:
        """Append a line of `Ledger.line`."""
        self._append("ledger.jsonl", line)

    def record_event(self, kind: str, text: str, **fields: Any) -> None:
        """Append something that happened to the run, with the time."""
        now = datetime.now(UTC).isoformat()
        self._append("events.jsonl", {"time": now, "kind": kind, "text": text, **fields})

    def record_groups(self, step: int, groups: Sequence[Group]) -> Path:
        """Write a step's groups; return the file."""
        self._check_writing()
        return write_groups(self.path, step, groups)

    def replace_config(self, config: Mapping[str, Any]) -> None:
        """Make `config` the run's own; the one before is kept under superseded/."""
        self._check_writing()
        old = self.path / "config.json"
        durable.create_file(following.next_superseded(self.path) / "config.json", old.read_bytes())
        _write_json(old, config)

    def sync(self) -> None:
        """Make all appended rows survive a power loss."""
        for file in self._files.values():
            file.sync()
        durable.sync_folder(self.path)

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        self._check_writing()
        self._files.setdefault(name, metrics.JsonLines(self.path / name)).append(row)

    def _check_writing(self) -> None:
        assert self._lock is not None, "this folder was opened for reading; use create or resume"

    # --- rewinding -----------------------------------------------------------------------------------

    def positions(self) -> dict[str, int]:
        """Sync, and return the length in bytes of each file that follows the state; for a checkpoint."""
        self.sync()
        return following.positions(self.path)

    def rewind(self, positions: Mapping[str, int]) -> list[str]:
        """Cut the files back to `positions` ({}: to the beginning); return one line for each file cut.

        What is cut off moves to superseded/<number>/ under the same name first: nothing is lost.
        Raises RunFolderError if a file is shorter than its position.
        """
        self._check_writing()
        self._close_files()
        return following.rewind(self.path, positions)

    def _close_files(self) -> None:
        for file in self._files.values():
            file.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the system's refusals into the user's error."""
    try:
        yield
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise RunFolderError(
            f"{path}: cannot be written ({error.strerror}). Choose a folder in which you may create files."
        ) from error
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENAMETOOLONG):
            raise
        raise RunFolderError(
            f"{path}: cannot be written ({error.strerror}). Choose another folder."
        ) from error


def _check_empty(path: Path) -> None:
    if not path.exists():
        return
    if (path / "run.json").exists():
        raise RunFolderError(
            f"{path}: already holds a run. Continue it with --resume, or choose another folder."
        )
    others = sorted(entry.name for entry in path.iterdir() if entry.name != "lock")
    if others:
        raise RunFolderError(f"{path}: not empty (it holds {others[0]!r}). Choose a new or empty folder.")


def _write_run(path: Path, config: Mapping[str, Any], identity: Mapping[str, Any]) -> dict[str, Any]:
    created = datetime.now(UTC)
    run = {
        "format": FORMAT,
        "run_id": f"{created:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}",
        "created": created.isoformat(),
        "identity": dict(identity),
    }
    for folder in ("groups", "checkpoints", "adapter"):
        durable.make_folder(path / folder)
    _write_json(path / "config.json", config)
    # run.json is what makes the folder a run, so it comes last.
    _write_json(path / "run.json", run)
    return run


def _read_run(path: Path) -> dict[str, Any]:
    file = path / "run.json"
    if not file.exists():
        raise RunFolderError(
            f"{path}: not a run folder (no run.json). Give the folder that a training run has made."
        )
    run = _read_json(file)
    if run.get("format") != FORMAT:
        raise RunFolderError(
            f"{file}: format {run.get('format')!r}, but this version of posttrain reads format {FORMAT}. "
            "Use the version that wrote it."
        )
    return run


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error}). Restore it from a copy.") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: a JSON object was expected. Restore it from a copy.")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    durable.replace_file(path, json.dumps(value, indent=2, allow_nan=False).encode("ascii") + b"\n")
