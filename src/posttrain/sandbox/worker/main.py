"""The warm worker: executed fresh, it forks a candidate for each run.

It keeps no payload: what a run is about goes past it, between the dispatcher and the candidate.
"""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Final, final

from posttrain.sandbox.confine import Confinement
from posttrain.sandbox.confine.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, prctl
from posttrain.sandbox.worker import box, candidate, processes
from posttrain.sandbox.worker.groups import Group
from posttrain.sandbox.worker.job import (
    KILL,
    MAX_MESSAGE_BYTES,
    READY,
    USAGE,
    WIPE,
    WIPED,
    Ended,
    Job,
    Reason,
    Setup,
)
from posttrain.sandbox.worker.watch import Watch

MAX_DESCRIPTORS = 3
_fork = ctypes.PyDLL(None).fork
"""The C library's fork: os.fork would renew locks and seeds that a process of one thread need not renew,
and make each candidate copy a hundred pages more."""
WARM = (
    "abc", "bisect", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "heapq", "inspect", "io", "itertools", "json", "math",
    "numbers", "operator", "random", "re", "statistics", "string", "struct", "textwrap", "threading", "time",
    "traceback", "types", "typing",
)  # fmt: skip
"""Modules that solutions import most; the rest of the standard library loads when a run asks for it."""


@final
class Worker:
    """One worker at its control socket: it does one job after the other."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self.setup: Final = Setup.from_bytes(control.recv(MAX_MESSAGE_BYTES))
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_DUMPABLE, 0)
        self._confinements = {
            "command": Confinement(self.setup.command),
            "function": Confinement(self.setup.function),
        }
        for confinement in self._confinements.values():
            confinement.enclose()
        self._group = Group(self.setup.groups)
        self._empty_box()

    def serve(self) -> None:
        """Do jobs until the dispatcher is gone; then leave an empty box."""
        with suppress(ConnectionError):
            self._control.send(READY)
        while True:
            message, descriptors = self._receive()
            if not message:
                break
            if message == WIPE:
                self._empty_box()
                self._control.send(WIPED)
            elif message == USAGE:
                self._control.send(b"0.0")
            elif descriptors:
                self._do(Job.from_bytes(message), descriptors)
        self._empty_box()

    def _receive(self) -> tuple[bytes, list[int]]:
        """Return the next message and its descriptors; an empty one where the dispatcher is gone."""
        with suppress(ConnectionError):
            message, descriptors, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS)
            return message, list(descriptors)
        return b"", []

    def _do(self, job: Job, descriptors: list[int]) -> None:
        if job.profile == "command":
            self._group.limit(job.limits)
        first = _fork()
        if first == 0:
            start = candidate.Start(job, self._confinements[job.profile], self._group, self.setup)
            candidate.become(start, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        watch = Watch(job, first, self.setup.box)
        reason = self._supervise(watch)
        reaped = processes.end_all(first, self._kill_all)
        if not reason and watch.exceeds_disk():
            reason = "DISK"
        if not job.keep:
            self._empty_box()
        with suppress(BrokenPipeError):
            self._control.send(self._ended(watch, reaped, reason).to_bytes())

    def _empty_box(self) -> None:
        if not self.setup.keep_box:
            box.empty(self.setup.box)

    def _kill_all(self) -> bool:
        """Kill all of the run at once, where that reaches nobody else; see `Confinement.kill_all`."""
        self._group.kill()
        confinement = self._confinements["command"]
        # The workers of a session share a user: what kills by user would reach the others' runs.
        return not (self.setup.keep_box and not confinement.can_signal_all()) and confinement.kill_all()

    def _supervise(self, watch: Watch) -> Reason:
        """Wait for the first process to end, or for a reason to end it."""
        ending = os.pidfd_open(watch.first)
        try:
            poller = select.poll()
            poller.register(ending, select.POLLIN)
            poller.register(self._control, select.POLLIN)
            while True:
                events = poller.poll(watch.pause() * 1000)
                if any(descriptor == ending for descriptor, _ in events):
                    return ""
                if events and self._asked_to_end(watch):
                    return self._end(watch, "KILLED")
                reason = watch.look()
                if reason:
                    return self._end(watch, reason)
        finally:
            os.close(ending)

    def _asked_to_end(self, watch: Watch) -> bool:
        message, _ = self._receive()
        if message == USAGE:
            watch.look()
            self._control.send(repr(watch.cpu_seconds).encode())
            return False
        return message in (KILL, b"")

    def _end(self, watch: Watch, reason: Reason) -> Reason:
        watch.waited_seconds = processes.waited_seconds(watch.first)
        with suppress(ProcessLookupError):
            os.kill(watch.first, signal.SIGKILL)
        return reason

    def _ended(self, watch: Watch, reaped: processes.Reaped, reason: Reason) -> Ended:
        status = reaped.status if reaped.status is not None else 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        if not reason and number == signal.SIGKILL and self._group.ran_out_of_memory():
            reason = "MEMORY"
        peak = self._group.peak_bytes() if watch.job.profile == "command" else 0
        memory = peak or max(watch.peak_bytes, reaped.peak_bytes)
        return Ended(
            code, number, reason, reaped.cpu_seconds, watch.wall_seconds, memory, watch.waited_seconds
        )


def warm_up(import_folders: tuple[str, ...]) -> None:
    """Load what solutions use, and settle memory for forking.

    What a candidate writes to, the kernel copies page by page, so most of its start is such copying.
    Rehearsing it here leaves caches filled and code specialised, and then candidates write to much less.
    """
    for name in WARM:
        importlib.import_module(name)
    quitters = importlib.import_module("_sitebuiltins")
    for name in ("exit", "quit"):  # the site module, which is not loaded here, would put them there
        setattr(builtins, name, quitters.Quitter(name, "Ctrl-D (i.e. EOF)"))
    sys.path[:] = [*(path for path in sys.path if path.startswith(sys.base_prefix)), *import_folders]
    for name in [name for name in sys.modules if name.partition(".")[0] == "posttrain"]:
        del sys.modules[name]
    candidate.rehearse()
    gc.collect()
    gc.freeze()


def main(descriptor: int) -> None:
    """Serve at the control socket that was inherited as `descriptor`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.SIG_IGN
        )  # the end of the socket ends a worker, wherever the signal comes from
    control = socket.socket(fileno=fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, candidate.TALK + 1))
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != candidate.TALK:  # candidates put theirs there, so nothing of ours may be
        os.dup2(nothing, candidate.TALK, inheritable=False)
    try:
        worker = Worker(control)
        warm_up(worker.setup.import_folders)
    except Exception as error:
        control.send(f"{type(error).__name__}: {error}".encode(errors="replace")[:MAX_MESSAGE_BYTES])
        raise SystemExit(1) from None
    worker.serve()
