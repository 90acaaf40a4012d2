"""Watching a run from outside: CPU, wall, memory over all processes, process count and disk."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

from posttrain.protocols import Limits
from posttrain.sandbox.worker import processes
from posttrain.sandbox.worker.box import usage as box_usage
from posttrain.sandbox.worker.job import Job, Reason

TICK_SECONDS = 0.02
"""How often a run is looked at; memory over many processes may overshoot by what they grow in that time."""
SHARE_OF_TIME = 0.1
"""Looking may take this share of a core at most."""


@dataclass(slots=True)
class Watch:
    """Look at a run now and then, and say when it has gone too far."""

    job: Job
    first: int
    box: str
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    waited_seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _cost: float = 0.0
    _memory: int = 0

    @property
    def wall_seconds(self) -> float:
        return time.monotonic() - self.started

    def pause(self) -> float:
        """Return the seconds until the next look."""
        wanted = max(TICK_SECONDS, self._cost / SHARE_OF_TIME)
        if self.job.timed:
            limits = self.job.limits
            left = min(limits.wall_seconds - self.wall_seconds, limits.cpu_seconds - self.cpu_seconds)
            wanted = min(wanted, max(left, 0.001))
        return wanted

    def look(self) -> Reason:
        """Return why the run must end now, or ''."""
        begun = time.monotonic()
        limits, count = self.job.limits, self._measure()
        reason = self._time_out(limits)
        if self.job.profile == "command" and self._memory > limits.memory_bytes:
            reason = "MEMORY"
        elif self.job.profile == "command" and count > limits.num_processes:
            reason = "PROCESSES"
        elif not reason and self.exceeds_disk(running=True):
            reason = "DISK"
        self._cost = time.monotonic() - begun
        return reason

    def _measure(self) -> int:
        """Take the run's use of CPU and memory; return its number of processes."""
        self.waited_seconds = processes.waited_seconds(self.first)
        if self.job.profile == "function":
            self.cpu_seconds = processes.cpu_seconds(self.first)
            return 1
        uses = [processes.use(process) for process in processes.descendants(os.getpid())]
        self.cpu_seconds = max(self.cpu_seconds, sum(use.cpu_seconds for use in uses))
        self._memory = sum(use.memory_bytes for use in uses)
        self.peak_bytes = max(self.peak_bytes, self._memory)
        return len(uses)

    def _time_out(self, limits: Limits) -> Reason:
        if not self.job.timed:
            return ""
        if self.cpu_seconds >= limits.cpu_seconds:
            return "CPU_TIMEOUT"
        return "WALL_TIMEOUT" if self.wall_seconds >= limits.wall_seconds else ""

    def exceeds_disk(self, *, running: bool = False) -> bool:
        """Tell whether the box holds more than it may, while it runs with what has no name any more."""
        size, count = box_usage(self.box, MAX_ENTRIES)
        if running:
            size += processes.nameless_bytes(processes.descendants(os.getpid()))
        return size > self.job.limits.disk_bytes or count > MAX_ENTRIES


MAX_ENTRIES = 4096
"""Files and folders that a box may hold: more of them is an inode bomb."""
