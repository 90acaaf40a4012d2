"""The workers of a dispatcher: lent for one run at a time, replaced when lost or worn."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar, final

from posttrain.sandbox import bubblewrap
from posttrain.sandbox.confine import Level
from posttrain.sandbox.dispatcher.place import Place
from posttrain.sandbox.dispatcher.worker import Worker, WorkerLost, visible_to_workers
from posttrain.sandbox.worker import processes

T = TypeVar("T")
MAX_START_TRIES = 3
MAX_LOOKS, LOOK_SECONDS = 500, 0.005


@dataclass(frozen=True, slots=True)
class Staff:
    """How many workers there are, how long each stays, how often runs are retried."""

    num_workers: int
    recycle_after: int
    retries: int
    bubblewrap: str = ""


def start(place: Place, staff: Staff, shared_box: int | None = None) -> Worker:
    """Start a worker in a fresh slot, with a box of its own or that of another slot."""
    slot = place.take()
    if shared_box is None:
        place.make_box(slot)
    setup = place.set_up(slot, shared_box)
    prefix: list[str] = []
    if place.level == Level.NAMESPACES:
        prefix = bubblewrap.command(setup.command, staff.bubblewrap, visible_to_workers())
    worker = Worker(slot, setup, tuple(prefix))
    place.workers.add(worker.process)
    return worker


async def stop(place: Place, worker: Worker) -> None:
    """End a worker, whatever it does, and remove its box."""
    was_lost = worker.lost
    await worker.gone()
    place.workers.discard(worker.process)
    if was_lost:
        await end_orphans(place.workers)
    place.give_back(worker.slot)


async def end_orphans(workers: Collection[int]) -> None:
    """Kill and reap the children of this process that are no workers."""
    for _ in range(MAX_LOOKS):
        orphans = set(processes.children(os.getpid())) - set(workers)
        for orphan in orphans:
            processes.kill_below(orphan)
            with suppress(OSError):
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, os.WNOHANG)
        if not orphans:
            return
        await asyncio.sleep(LOOK_SECONDS)


@final
@dataclass(slots=True)
class Pool:
    """Lend free workers to runs, first come first served."""

    place: Place
    staff: Staff
    _free: asyncio.Queue[Worker | None] = field(default_factory=asyncio.Queue)
    _workers: set[Worker] = field(default_factory=set)
    _relieved: set[Worker] = field(default_factory=set)
    _worn: set[Worker] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _gate: Gate = field(default_factory=lambda: Gate())
    _broken: str = ""
    _closing: bool = False

    async def open(self) -> None:
        """Start all workers; raise WorkerLost where they do not come up."""
        await asyncio.gather(*(self._hire() for _ in range(self.staff.num_workers)))
        if self._broken:
            raise WorkerLost(self._broken)

    async def close(self) -> None:
        """End all workers and their runs."""
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(stop(self.place, worker) for worker in list(self._workers)))

    async def lend(self, work: Callable[[Worker], Awaitable[T]], *, alone: bool = False) -> T:
        """Return what `work` makes of a worker, asked again on another where that gave no verdict.

        `alone` keeps the other workers idle meanwhile. Raises WorkerLost after the last try.
        """
        lost = WorkerLost("never tried")
        for _ in range(self.staff.retries + 1):
            try:
                async with self._gate.alone() if alone else self._gate.beside_others():
                    return await self._once(work)
            except WorkerLost as error:
                lost = error
        raise lost

    async def _once(self, work: Callable[[Worker], Awaitable[T]]) -> T:
        worker = await self._next()
        try:
            return await work(worker)
        finally:
            self._take_back(worker)

    async def _next(self) -> Worker:
        """Return the worker that is free for longest."""
        while True:
            worker = await self._free.get()
            if worker is None:
                await self._hire_again()
            else:
                return worker

    async def _hire_again(self) -> None:
        """Hire where nobody could be hired the last time: what was in the way may have passed."""
        if not self._workers:
            await asyncio.gather(*(self._hire() for _ in range(self.staff.num_workers)))
        if not self._workers:
            raise WorkerLost(self._broken)

    def _take_back(self, worker: Worker) -> None:
        if worker.lost and worker in self._relieved:  # whoever comes in its place is hired already
            self._worn.discard(worker)
            self._do(self._dismiss(worker))
        elif worker.lost:
            self._do(self._replace(worker))
        elif not worker.is_clean:
            self._do(self._settle(worker))
        elif worker in self._worn:
            self._send_away(worker)
        else:
            if worker.num_runs >= self.staff.recycle_after and worker not in self._relieved:
                self._relieved.add(worker)
                self._do(self._relieve(worker))
            self._free.put_nowait(worker)

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside the runs."""
        if self._closing:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hire(self) -> bool:
        """Start a worker and put it to use; tell whether that worked."""
        problem = ""
        for _ in range(MAX_START_TRIES):
            worker = start(self.place, self.staff)
            self._workers.add(worker)
            try:
                await worker.ready()
            except WorkerLost as lost:
                problem = str(lost)
                await self._dismiss(worker)
            else:
                self._free.put_nowait(worker)
                return True
        if not self._workers:
            self._broken = problem
            self._free.put_nowait(None)
        return False

    async def _dismiss(self, worker: Worker) -> None:
        await stop(self.place, worker)
        for workers in (self._workers, self._relieved):
            workers.discard(worker)

    async def _replace(self, worker: Worker) -> None:
        await self._dismiss(worker)
        await self._hire()

    async def _relieve(self, worker: Worker) -> None:
        """Have a fresh worker ready before a worn one goes: now if it is idle, else after its run."""
        if not await self._hire():
            self._relieved.discard(worker)  # the next run asks again
        elif not worker.lost:
            self._worn.add(worker)
            self._send_idle_away()

    def _send_idle_away(self) -> None:
        """Send away the worn workers that are free; the others go when they are taken back."""
        for _ in range(self._free.qsize()):
            worker = self._free.get_nowait()
            if worker in self._worn:
                self._send_away(worker)
            else:
                self._free.put_nowait(worker)

    def _send_away(self, worker: Worker) -> None:
        self._worn.remove(worker)
        self._do(self._dismiss(worker))

    async def _settle(self, worker: Worker) -> None:
        """End a run that nobody waits for any more, then put its worker to use again."""
        with suppress(WorkerLost):
            await worker.settle()
        self._take_back(worker)


@final
class Gate:
    """Let runs go on beside each other, or one of them alone."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._num_running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def beside_others(self) -> _Beside:
        """Return a context in which others may run."""
        return _Beside(self)

    def alone(self) -> _Alone:
        """Return a context in which nobody else runs."""
        return _Alone(self)

    async def _enter(self) -> None:
        if self._turn.locked():
            async with self._turn:
                pass
        self._num_running += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._num_running -= 1
        if not self._num_running:
            self._idle.set()


@dataclass(slots=True)
class _Beside:
    gate: Gate

    async def __aenter__(self) -> None:
        await self.gate._enter()

    async def __aexit__(self, *_: object) -> None:
        self.gate._leave()


@dataclass(slots=True)
class _Alone:
    gate: Gate

    async def __aenter__(self) -> None:
        await self.gate._turn.acquire()
        try:
            await self.gate._idle.wait()
        except BaseException:
            self.gate._turn.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self.gate._turn.release()
