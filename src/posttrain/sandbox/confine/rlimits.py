"""The kernel's per-process limits of one run."""

from __future__ import annotations

import math
import os
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posttrain.protocols import Limits
    from posttrain.sandbox.confine.levels import Profile

_STACK_BYTES = 8 * 2**20
_MAX_THREADS = 64  # of a function's single process
_MAX_TIMERS = 256


def apply(limits: Limits, profile: Profile, tasks_before: int) -> None:
    """Bound this process and its children by `limits`; soft and hard alike, so they cannot be raised again.

    RLIMIT_NPROC counts a user's tasks, threads included: `tasks_before` are those of others where the run's
    user is not its own. A command may have `num_processes` tasks, a function one process with threads. Memory
    is bound as address space: that of the process as it is plus `memory_bytes`, for each process.
    """
    cpu = max(1, math.ceil(limits.cpu_seconds))
    tasks = tasks_before + (limits.num_processes if profile == "command" else _MAX_THREADS)
    _set(resource.RLIMIT_CPU, cpu, cpu + 1)
    _set(resource.RLIMIT_AS, _address_space() + limits.memory_bytes)
    _set(resource.RLIMIT_FSIZE, limits.disk_bytes)
    _set(resource.RLIMIT_NOFILE, limits.num_files)
    _set(resource.RLIMIT_STACK, _STACK_BYTES, max(_STACK_BYTES, limits.memory_bytes))
    _set(resource.RLIMIT_NPROC, tasks)
    # A core limit of 1 also keeps crash handlers fed by a pipe away; 0 does not (core(5)).
    _set(resource.RLIMIT_CORE, 1)
    for none in (
        resource.RLIMIT_MEMLOCK,
        resource.RLIMIT_MSGQUEUE,
        resource.RLIMIT_NICE,
        resource.RLIMIT_RTPRIO,
    ):
        _set(none, 0)
    _set(resource.RLIMIT_SIGPENDING, tasks_before + _MAX_TIMERS)


def count_tasks(uid: int) -> int:
    """Count the threads of all processes of a user that /proc shows."""
    return sum(
        _threads(entry.path) for entry in os.scandir("/proc") if entry.name.isdigit() and _owned(entry, uid)
    )


def _set(which: int, soft: int, hard: int | None = None) -> None:
    """Set a limit, or as much of it as a lower hard limit that is already there leaves."""
    wanted = (soft, soft if hard is None else hard)
    try:
        resource.setrlimit(which, wanted)
    except (ValueError, PermissionError):
        ceiling = resource.getrlimit(which)[1]
        resource.setrlimit(which, (min(wanted[0], ceiling), min(wanted[1], ceiling)))


def _address_space() -> int:
    descriptor = os.open(
        "/proc/self/statm", os.O_RDONLY
    )  # a file object costs ten times as much after a fork
    try:
        return int(os.read(descriptor, 64).split()[0]) * resource.getpagesize()
    finally:
        os.close(descriptor)


def _owned(entry: os.DirEntry[str], uid: int) -> bool:
    try:
        return entry.stat().st_uid == uid
    except OSError:
        return False


def _threads(path: str) -> int:
    try:
        return len(os.listdir(f"{path}/task"))
    except OSError:
        return 0
