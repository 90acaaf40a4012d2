"""Sessions: processes that live on between runs, in one box."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from posttrain.protocols import Limits, Program, RunResult, Status
from posttrain.sandbox import compiled
from posttrain.sandbox.compiled import Compiler
from posttrain.sandbox.dispatcher import runs
from posttrain.sandbox.dispatcher.channel import Channel
from posttrain.sandbox.dispatcher.collect import collect
from posttrain.sandbox.dispatcher.order import Order, order, refusal, refused, shell, with_processes
from posttrain.sandbox.dispatcher.place import Place
from posttrain.sandbox.dispatcher.pool import Staff, start, stop
from posttrain.sandbox.dispatcher.runs import LONGEST_SECONDS, Streams
from posttrain.sandbox.dispatcher.told import Told
from posttrain.sandbox.dispatcher.worker import Worker, WorkerLost
from posttrain.sandbox.worker.conversation import DONE
from posttrain.sandbox.worker.job import Ended, Job
from posttrain.sandbox.worker.shell import SESSION

Kind = Literal["python", "shell", "once"]
"""Each has a worker of its own in a session: the living Python, the living shell, and whatever runs once."""

INPUT = ".stdin"


@final
class Living:
    """A process that runs one piece of source after the other."""

    def __init__(self, worker: Worker, kind: Kind, limits: Limits) -> None:
        self._worker, self._kind = worker, kind
        self.told, self._done = Told(), asyncio.Event()
        self._code: int | None = None
        self._streams = Streams(worker, limits.output_bytes)
        self._channel = Channel(self._hear, runs.MAX_TOLD_BYTES)
        mode: Literal["python-session", "shell-session"] = (
            "python-session" if kind == "python" else "shell-session"
        )
        profile: Literal["function", "command"] = (
            "function" if kind == "python" and limits.num_processes == 1 else "command"
        )
        whole = replace(limits, cpu_seconds=LONGEST_SECONDS)
        self._profile = profile
        descriptors = [self._channel.theirs.fileno(), self._streams.out.theirs, self._streams.err.theirs]
        job = Job(mode, profile, whole if kind == "python" else with_processes(whole), False, True)
        self._ending = worker.begin(job, descriptors)
        self._streams.hand_over()
        self._channel.theirs.close()
        if kind == "shell":
            first = Order("shell-session", "command", limits, "", (shell(), "-c", SESSION))
            self._channel.send(first.payload())

    @property
    def has_ended(self) -> bool:
        return self._ending.done()

    async def run(self, order: Order) -> RunResult:
        """Run one piece of source in the living process, which may end with that."""
        self._done.clear()
        self.told.status, self._code = None, None
        self._streams.limit(order.limits.output_bytes)
        began, cpu_before = time.monotonic(), await self._worker.used_seconds()
        if self._kind == "python":
            self._channel.send(order.payload())
        else:
            self._channel.send(order.source.encode(errors="surrogateescape") + b"\0")
        late = await self._until_done(order.limits, began, cpu_before)
        cpu = 0.0 if self.has_ended else await self._worker.used_seconds() - cpu_before
        status, code, memory = self._status(late, order.limits)
        if self.has_ended:
            cpu = max(0.0, Ended.from_bytes(self._ending.result()).cpu_seconds - cpu_before)
        (out, whole_out), (err, whole_err) = self._streams.take()
        wall = time.monotonic() - began
        return RunResult(status, code, out, err, not (whole_out and whole_err), max(0.0, cpu), wall, memory)

    def close(self) -> None:
        """End the process."""
        self._worker.kill()
        self._channel.close()
        self._streams.close()

    def _hear(self, kind: bytes, body: bytes) -> None:
        if kind == DONE:
            self._code = int(body) if body.isdigit() else 1
            self._done.set()
        else:
            self.told.hear(kind, body)

    async def _until_done(self, limits: Limits, began: float, cpu_before: float) -> Status | None:
        """Wait for the end of a run, or end the process when it takes too long; return why."""
        done = asyncio.ensure_future(self._done.wait())
        try:
            while True:
                used = await self._worker.used_seconds() - cpu_before
                cpu, wall = limits.cpu_seconds - used, limits.wall_seconds - (time.monotonic() - began)
                late: Status | None = "CPU_TIMEOUT" if cpu <= 0 else "WALL_TIMEOUT" if wall <= 0 else None
                if late is not None:
                    self._worker.kill()
                    await asyncio.wait({self._ending})
                    return late
                pause = max(0.002, min(cpu, wall))
                await self._first_of(done, pause)
                if self._ending.done() or done.done():
                    return None
        finally:
            done.cancel()

    async def _first_of(self, event: asyncio.Future[Any], seconds: float | None = None) -> None:
        """Wait for an event, the end of the process, or some time."""
        both: set[asyncio.Future[Any]] = {event, self._ending}
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _status(self, late: Status | None, limits: Limits) -> tuple[Status, int | None, int]:
        if not self.has_ended:
            status: Status = "OK" if self._code == 0 else self.told.status or "RUNTIME_ERROR"
            return status, self._code, 0
        ended = Ended.from_bytes(self._ending.result())
        self._channel.drain()
        runs.check_begun(self.told, ended)
        status = runs.status_of(ended, replace(limits, cpu_seconds=LONGEST_SECONDS))
        if self._streams.bomb:
            status = "OUTPUT"
        return late or status, ended.code, ended.memory_bytes


@final
@dataclass(slots=True)
class Session:
    """A box with what lives in it; its runs come one after the other."""

    place: Place
    staff: Staff
    compiler: Compiler
    limits: Limits
    slot: int = field(init=False)
    _workers: dict[Kind, Worker] = field(default_factory=dict)
    _living: dict[Kind, Living] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.slot = self.place.take()
        self.place.make_box(self.slot)

    async def run(self, program: Program, limits: Limits) -> RunResult:
        """Run in the box; the session's own limits hold for memory, processes, disk and files."""
        limits = replace(
            self.limits,
            cpu_seconds=limits.cpu_seconds,
            wall_seconds=limits.wall_seconds,
            output_bytes=limits.output_bytes,
        )
        no = refusal(program, limits)
        if no is not None:
            return no
        async with self._turn:
            try:
                return await self._run(program, limits)
            except WorkerLost as lost:
                return refused("INFRA", str(lost))

    async def write(self, files: Mapping[str, bytes]) -> RunResult:
        """Put files into the box."""
        return await self.run(Program("python", files=files), self.limits)

    async def close(self) -> None:
        """End everything and remove the box."""
        for living in self._living.values():
            living.close()
        await asyncio.gather(*(stop(self.place, worker) for worker in self._workers.values()))
        self._workers.clear()
        self.place.give_back(self.slot)

    async def _run(self, program: Program, limits: Limits) -> RunResult:
        if program.language == "python":
            result = await self._in_living("python", order(program, limits))
        elif program.language == "shell" and not program.arguments and shell() == "/bin/bash":
            result = await self._in_shell(program, limits)
        else:
            result = await self._once(program, limits)
        if program.collect:
            box = self.place.box(self.slot)
            result = replace(result, files=collect(box, program.collect, limits.disk_bytes))
        return result

    async def _in_shell(self, program: Program, limits: Limits) -> RunResult:
        source = program.source
        if program.files or program.stdin:
            files = {**program.files, INPUT: program.stdin}
            await self._carry_out(Order("script", "function", limits, files=files, keep=True))
            source = f"{{ {source}\n}} <{self.place.box(self.slot)}/{INPUT}"
        try:
            return await self._in_living("shell", Order("shell-session", "command", limits, source))
        finally:
            with suppress(OSError):  # it was never there, or the program has put something in its place
                os.unlink(f"{self.place.box(self.slot)}/{INPUT}")

    async def _in_living(self, kind: Kind, order: Order) -> RunResult:
        living = self._living.get(kind)
        if living is None or living.has_ended:
            if living is not None:
                living.close()
            living = Living(await self._worker(kind), kind, self.limits)
            self._living[kind] = living
        try:
            return await living.run(order)
        except BaseException:  # nobody waits for its end any more, so it cannot be asked again
            living.close()
            self._living.pop(kind, None)
            await stop(self.place, self._workers.pop(kind))
            raise

    async def _once(self, program: Program, limits: Limits) -> RunResult:
        if program.language in compiled.LANGUAGES:
            built = await self.compiler.order(program, limits)
            if isinstance(built, RunResult):
                return built
        else:
            built = order(program, limits)
        return await self._carry_out(replace(built, keep=True, collect=()))

    async def _carry_out(self, order: Order) -> RunResult:
        worker = await self._worker("once")
        try:
            return (await runs.run(worker, order)).result
        except BaseException:
            await stop(self.place, self._workers.pop("once"))
            raise

    async def _worker(self, kind: Kind) -> Worker:
        worker = self._workers.get(kind)
        if worker is not None and worker.lost:
            await stop(self.place, self._workers.pop(kind))
            worker = None
        if worker is None:
            worker = start(self.place, self.staff, self.slot)
            self._workers[kind] = worker
            await worker.ready()
        return worker
