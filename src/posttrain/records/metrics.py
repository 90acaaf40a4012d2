"""Append-only files of JSON lines, and the names of the metrics that stand in them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, final

from posttrain.types import JSON

STEP_METRICS = (
    "step", "version", "skipped", "loss", "grad_norm", "learning_rate", "reward_mean", "success_mean",
    "entropy", "kl_sampler", "mismatch_max", "clip_share", "num_groups", "num_groups_trained", "num_attempts",
    "num_unjudged", "num_truncated", "num_too_long", "signal_share", "length_mean", "distinct_answers_mean",
    "tokens_sampled", "tokens_trained", "seconds_sample", "seconds_verify", "seconds_update", "seconds_step",
    "tokens_per_second", "memory_peak_bytes", "verify_share", "num_flagged", "num_quarantined",
)  # fmt: skip
"""Names in metrics.jsonl; an algorithm's loss components stand beside them as `loss.<component>`."""

DOMAIN_METRICS = (
    "step", "domain", "level", "num_groups", "num_attempts", "reward_mean", "success_mean", "signal_share",
    "truncated_share", "length_mean", "distinct_answers_mean", "unjudged", "pass_any",
    "flagged_share", "num_quarantined", "hidden_gap",
)  # fmt: skip
"""Names in domains.jsonl."""

COMPONENT = "loss."
"""Prefix of the loss components in metrics.jsonl."""

FLAG, PART = "flag.", "part."
"""Prefixes in domains.jsonl: how many rewards carry a flag; the mean of a part over those that have it."""

NONFINITE = "nonfinite"
"""Key of a line under which the names and texts of its NaN and infinite values stand."""


def check_names(row: Mapping[str, Any], documented: Iterable[str]) -> None:
    """Raise AssertionError for a metric that docs/reference/run-folder.md does not know."""
    open_ended = (COMPONENT, FLAG, PART)
    unknown = [name for name in row if name not in documented and not name.startswith(open_ended)]
    assert not unknown, f"undocumented metrics: {unknown}"


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Return a row as one line of valid JSON.

    NaN and infinities, at any depth, become null; the key `nonfinite` then maps their dotted paths to 'nan',
    'inf' or '-inf', so that no reader takes a diverged loss for a missing one.
    """
    odd: dict[str, str] = {}
    plain = {key: _plain(value, key, odd) for key, value in row.items()}
    if odd:
        plain[NONFINITE] = odd
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def _plain(value: Any, path: str, odd: dict[str, str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        odd[path] = repr(float(value))
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{path}.{key}", odd) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}.{i}", odd) for i, item in enumerate(value)]
    return value


@final
@dataclass(slots=True)
class JsonLines:
    """Append rows to one file; each is handed to the system at once, and made durable by `sync`."""

    path: Path
    _file: FileIO | None = None

    def append(self, row: Mapping[str, JSON]) -> None:
        """Write one row; it survives the death of this process."""
        file, rest = self._open(), memoryview(encode_row(row))
        while rest:  # the system may take less than it is given
            rest = rest[file.write(rest) :]

    def sync(self) -> None:
        """Make all rows survive a power loss."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync and close; a later append opens the file again."""
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None

    def _open(self) -> FileIO:
        if self._file is None:
            torn = _is_torn(self.path)
            self._file = FileIO(self.path, "ab")
            if torn:
                # A line that a crash cut off must not swallow the next one.
                self._file.write(b"\n")
        return self._file


def _is_torn(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read_rows(path: Path, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; an absent file has none.

    A line that cannot be read, as a crash leaves at the end, is left out and reported with its number.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        row = _read_line(line)
        if row is None:
            where = "torn last line" if number == len(lines) else "unreadable line"
            report(f"{path}: {where} {number} left out ({len(line)} bytes)")
        else:
            rows.append(row)
    return rows


def _read_line(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
