"""The control group of a worker's candidates, where there can be one: exact limits."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from posttrain.protocols import Limits

_V1_MEMORY, _V1_PEAK, _V1_FAILURES = (
    "memory.limit_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.oom_control",
)
_V2_MEMORY, _V2_PEAK, _V2_FAILURES = "memory.max", "memory.peak", "memory.events"


@final
class Group:
    """One control group for each writable hierarchy, reused from run to run.

    `folders` are those of cgroup v1's memory and pids controllers, or of cgroup v2.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._entries = [_opened(f"{folder}/cgroup.procs") for folder in folders]
        self._failures = 0

    def limit(self, limits: Limits) -> None:
        """Set the limits of the next run and forget the peak of the last."""
        for folder in self._folders:
            _write(f"{folder}/{_V1_PEAK}", "0")
            _write(f"{folder}/{_V2_PEAK}", "0")
            for name in (_V1_MEMORY, _V2_MEMORY):
                _write(f"{folder}/{name}", str(limits.memory_bytes))
            _write(f"{folder}/memory.swap.max", "0")
            # Threads count here too, so this only stops bombs: processes are counted elsewhere.
            _write(f"{folder}/pids.max", str(limits.num_processes + TASKS_BESIDE))
        self._failures = self._count_failures()

    def enter(self) -> None:
        """Move the calling process in; it opened nothing itself, so it may have lost its privileges."""
        for entry in self._entries:
            os.write(entry, b"0")

    def kill(self) -> None:
        """Kill all members at once, where the kernel can (cgroup v2)."""
        for folder in self._folders:
            _write(f"{folder}/cgroup.kill", "1")

    def peak_bytes(self) -> int:
        """Return the most memory that the run used, 0 where it was not counted."""
        return max((_number(f"{f}/{n}") for f in self._folders for n in (_V1_PEAK, _V2_PEAK)), default=0)

    def ran_out_of_memory(self) -> bool:
        """Tell whether the kernel killed a member for memory since `limit`."""
        return self._count_failures() > self._failures

    def _count_failures(self) -> int:
        texts = [
            _read(f"{folder}/{name}") for folder in self._folders for name in (_V1_FAILURES, _V2_FAILURES)
        ]
        words = [line.split() for text in texts for line in text.splitlines()]
        return sum(int(word[1]) for word in words if word[0] == "oom_kill")


TASKS_BESIDE = 64


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def _write(path: str, text: str) -> None:
    with suppress(OSError), open(path, "w") as file:
        file.write(text)


def _read(path: str) -> str:
    with suppress(OSError), open(path) as file:
        return file.read()
    return ""


def _number(path: str) -> int:
    text = _read(path).strip()
    return int(text) if text.isdigit() else 0
