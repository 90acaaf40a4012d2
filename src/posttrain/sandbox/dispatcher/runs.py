"""One run of a program on a worker, and what its end means."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import final

from posttrain.protocols import Limits, RunResult, Status
from posttrain.sandbox.confine import SECURITY_SIGNAL
from posttrain.sandbox.dispatcher.channel import Channel
from posttrain.sandbox.dispatcher.order import Order
from posttrain.sandbox.dispatcher.output import Output
from posttrain.sandbox.dispatcher.told import Told
from posttrain.sandbox.dispatcher.worker import Worker, WorkerLost
from posttrain.sandbox.worker.job import NOT_READY_CODE, Ended

MAX_TOLD_BYTES = 16_384
LONGEST_SECONDS = 86_400.0
BY_SIGNAL: dict[int, Status] = {
    SECURITY_SIGNAL: "SECURITY",
    signal.SIGXCPU: "CPU_TIMEOUT",
    signal.SIGXFSZ: "DISK",
}
STARVED_SHARE: dict[Status, float] = {"WALL_TIMEOUT": 0.25, "CPU_TIMEOUT": 0.75}
"""A time-out is doubtful where the run waited for a processor for this share of its time.

Waiting costs wall time; CPU time only grows by the caches that are lost to others, so that takes more."""


def status_of(ended: Ended, limits: Limits) -> Status:
    """Return what a run's end means; OK only for exit code 0 within all limits."""
    if ended.reason in ("CPU_TIMEOUT", "WALL_TIMEOUT", "MEMORY", "DISK"):
        return ended.reason
    if ended.signal is not None and ended.signal in BY_SIGNAL:
        return BY_SIGNAL[ended.signal]
    if ended.cpu_seconds > limits.cpu_seconds:
        return "CPU_TIMEOUT"
    return "OK" if ended.code == 0 and not ended.reason else "RUNTIME_ERROR"


def check_begun(told: Told, ended: Ended) -> None:
    """Raise WorkerLost where user code never came to run: that is no verdict."""
    if not told.ready:
        at_fault = f"exit code {ended.code}, signal {ended.signal} {ended.reason}"
        known = told.text if ended.code == NOT_READY_CODE else ""
        raise WorkerLost(f"the candidate did not start ({known or at_fault})")


def is_doubtful(status: Status, ended: Ended) -> bool:
    """Tell whether a run was late because other work on the machine kept it from running."""
    share = STARVED_SHARE.get(status)
    return share is not None and ended.waited_seconds >= share * max(ended.wall_seconds, 0.001)


@dataclass(frozen=True, slots=True)
class Finished:
    """A run's result, and whether it is a time-out that the machine may be to blame for."""

    result: RunResult
    is_doubtful: bool


@final
@dataclass(slots=True)
class Streams:
    """Standard output and error of a run; `bomb` once they are far too much."""

    worker: Worker
    cap: int
    bomb: bool = False
    out: Output = field(init=False)
    err: Output = field(init=False)

    def __post_init__(self) -> None:
        self.out, self.err = (Output(self.cap, self._end_run) for _ in range(2))

    def _end_run(self) -> None:
        if not self.bomb:
            self.bomb = True
            self.worker.kill()

    def hand_over(self) -> None:
        """Close the candidate's ends here."""
        self.out.hand_over()
        self.err.hand_over()

    def limit(self, cap: int) -> None:
        """Begin a new run of a process that lives on."""
        self.take()
        for output in (self.out, self.err):
            output.cap = cap

    def take(self) -> tuple[tuple[bytes, bool], tuple[bytes, bool]]:
        """Return what was printed since the last time, and of each stream whether that is all."""
        return self.out.take(), self.err.take()

    def close(self) -> None:
        """Stop reading."""
        self.out.close()
        self.err.close()


async def run(worker: Worker, order: Order) -> Finished:
    """Run an order on a free worker; raise WorkerLost where there is no verdict."""
    told, streams = Told(), Streams(worker, order.limits.output_bytes)
    channel = Channel(told.hear, MAX_TOLD_BYTES)
    try:
        descriptors = [channel.theirs.fileno(), streams.out.theirs, streams.err.theirs]
        ending = worker.begin(order.job, descriptors)
        streams.hand_over()
        channel.theirs.close()
        channel.send(order.payload())
        ended = Ended.from_bytes(await ending)
        channel.drain()
        check_begun(told, ended)
        result = _result(ended, told, streams, order.limits)
        return Finished(result, is_doubtful(result.status, ended))
    finally:
        channel.close()
        streams.close()


def _result(ended: Ended, told: Told, streams: Streams, limits: Limits) -> RunResult:
    (out, whole_out), (err, whole_err) = streams.take()
    status = status_of(ended, limits)
    if streams.bomb and status in ("OK", "RUNTIME_ERROR"):
        status = "OUTPUT"
    elif status == "RUNTIME_ERROR" and told.status is not None:
        status = told.status
    if ended.reason == "PROCESSES":
        err += f"sandbox: more than limits.num_processes = {limits.num_processes} processes\n".encode()
    return RunResult(
        status, ended.code, out, err, not (whole_out and whole_err), ended.cpu_seconds, ended.wall_seconds,
        ended.memory_bytes,
    )  # fmt: skip


def with_files(result: RunResult, files: dict[str, bytes]) -> RunResult:
    """Return the result with the files that were collected."""
    return replace(result, files=files)
