"""A worker's descendants: what they use, and ending them all so that none remains."""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from resource import getpagesize

PAGE = getpagesize()
TICKS = os.sysconf("SC_CLK_TCK")
BLOCK = 512
"""The unit of st_blocks, see stat(2)."""
GIVE_UP_SECONDS = 10.0
"""A killed process that is still there then hangs in the kernel; the worker is given up with it."""


def cpu_clock(process: int) -> int:
    """Return the id of the clock that counts a process's CPU time: see clock_getcpuclockid(3)."""
    return (~process << 3) | 2


def cpu_seconds(process: int) -> float:
    """Return the CPU time of one process, all threads; 0 where it is gone."""
    try:
        return time.clock_gettime(cpu_clock(process))
    except OSError:
        return 0.0


def waited_seconds(process: int) -> float:
    """Return how long a process's main thread was ready to run without running; 0 where unknown."""
    try:
        with open(f"/proc/{process}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def descendants(root: int) -> Iterator[int]:
    """Yield every process below `root`, parents first."""
    waiting = [root]
    while waiting:
        for child in children(waiting.pop()):
            waiting.append(child)
            yield child


def children(process: int) -> list[int]:
    """Return the direct children of a process."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError), open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


@dataclass(frozen=True, slots=True)
class Use:
    """What a process has used: CPU with that of its waited-for children, and memory of its own now."""

    cpu_seconds: float
    memory_bytes: int


def use(process: int) -> Use:
    """Return what a process uses; nothing where it is gone. Shared file pages are not its own."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{process}/status", "rb") as file:
            status = file.read()
    except OSError:
        return Use(0.0, 0)
    seconds = sum(map(int, fields[11:15])) / TICKS
    return Use(seconds, _kilobytes(status, b"RssAnon:") + _kilobytes(status, b"RssShmem:"))


def nameless_bytes(members: Iterable[int]) -> int:
    """Return the disk space of files that processes hold open after the last name of them was removed."""
    found: dict[tuple[int, int], int] = {}
    for process in members:
        with suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
            for descriptor in descriptors:
                with suppress(OSError):
                    file = os.stat(descriptor.path)
                    if stat.S_ISREG(file.st_mode) and file.st_nlink == 0:
                        found[file.st_dev, file.st_ino] = file.st_blocks * BLOCK
    return sum(found.values())


def _kilobytes(status: bytes, name: bytes) -> int:
    _, found, rest = status.partition(name)
    return int(rest.split(None, 1)[0]) * 1024 if found else 0


@dataclass(slots=True)
class Reaped:
    """What is known of processes that were waited for, added up."""

    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    status: int | None = None

    def reap(self, first: int) -> bool:
        """Wait for all that has ended; tell whether no child is left. `status` is that of `first`."""
        while True:
            try:
                process, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if process == 0:
                return False
            self.cpu_seconds += usage.ru_utime + usage.ru_stime
            self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss * 1024)
            if process == first:
                self.status = status


def end_all(first: int, kill_all: Callable[[], bool]) -> Reaped:
    """Kill and reap every descendant of this process; TimeoutError where one stays.

    Whoever loses its parent becomes this process's child, so no child left means that nothing is left.
    `kill_all` kills them at once where that can be done, and says so; else they are sought one by one.
    """
    reaped, pause, deadline = Reaped(), 0.0, 0.0
    while not reaped.reap(first):
        deadline = deadline or time.monotonic() + GIVE_UP_SECONDS
        if not kill_all():
            kill_below(os.getpid())
        time.sleep(pause)
        pause = min(0.01, pause + 0.0002)
        if time.monotonic() > deadline:
            raise TimeoutError(f"a killed process is still there after {GIVE_UP_SECONDS:g} s")
    return reaped


def kill_below(root: int) -> bool:
    """Kill every process that is found below `root`; some may have been born meanwhile."""
    for process in list(descendants(root)):
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    return True
