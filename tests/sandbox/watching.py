"""What a sandbox has and leaves: processes, zombies, descriptors, memory, files, control groups."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

PATIENCE_SECONDS = 15.0
TRACKER = "multiprocessing.resource_tracker"
"""A helper of Python's own, which libraries that other tests use start and never end."""


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    number: int
    parent: int
    state: str
    command: str


def processes() -> dict[int, Process]:
    """Return every process that /proc shows."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            rest = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        number = int(entry.name)
        found[number] = Process(number, int(rest[1]), rest[0], command)
    return found


def descendants(root: int) -> list[Process]:
    """Return every process below one, Python's own helper left out."""
    known = {number: each for number, each in processes().items() if TRACKER not in each.command}
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        below = [process for process in known.values() if process.parent == parent]
        found += below
        waiting += [process.number for process in below]
    return found


def descriptors(process: int) -> int:
    """Count the open descriptors of a process."""
    return len(os.listdir(f"/proc/{process}/fd"))


def memory_bytes(process: int) -> int:
    """Return the memory of a process that it shares with nobody."""
    text = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


@final
class Traces:
    """What sandboxes leave in a temporary folder of their own, and the control groups named after it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._names = folder, set[str]()

    def note(self) -> None:
        """Remember what is there now, to look for what belongs to it later."""
        self._names |= {path.name for path in self._folder.iterdir()}

    def left(self) -> list[str]:
        """List what is still there."""
        groups = [Path(path) for path, _, _ in os.walk("/sys/fs/cgroup") if "posttrain" in path]
        mine = [str(group) for group in groups if any(group.name.startswith(name) for name in self._names)]
        return [str(path) for path in self._folder.iterdir()] + mine


@contextmanager
def traces() -> Iterator[Traces]:
    """Let sandboxes that are opened meanwhile use a temporary folder of their own."""
    before = os.environ.get("TMPDIR")
    folder = Path(tempfile.mkdtemp(prefix="watched-"))
    folder.chmod(0o711)
    os.environ["TMPDIR"] = str(folder)
    try:
        yield Traces(folder)
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait until something holds; tell whether it does in the end."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
