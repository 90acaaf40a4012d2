"""The inline runtime: users' asynchronous functions run beside the loop, each under a deadline.

They run on event loops in threads of their own, one for each lane (a domain's verifier, say), so one that
blocks or never returns costs its own lane and nothing else: the thread is left and a fresh one takes over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar, final

from posttrain.runtime.lane import Lane
from posttrain.runtime.stopwatch import Stopwatch

T = TypeVar("T")
BEAT_SECONDS = 0.25
"""How often a waiting caller looks whether its lane was left behind."""
MAX_TRIES = 3
"""How often work is begun again after a neighbour has blocked the thread."""


class DeadlineExceeded(Exception):
    """The function did not finish in time."""


class Blocked(DeadlineExceeded):
    """The function kept its thread from doing anything else until the deadline."""


class _Late(Exception):
    """The deadline of one try has passed, or its lane was left behind."""


class Stopped(Exception):
    """The function tried to end its thread (SystemExit, KeyboardInterrupt) or cancelled itself."""


def within(deadline_seconds: float, work: Callable[[], T]) -> T:
    """Return what `work()` returns; raise DeadlineExceeded, or what it raises.

    Work that hangs is left behind in a thread that ends with the process.
    """
    future: Future[T] = Future()

    def settle() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # handed on to the caller, whatever it is
            future.set_exception(error)

    threading.Thread(target=settle, daemon=True).start()
    try:
        return future.result(deadline_seconds)
    except TimeoutError:
        if future.done():  # the work's own TimeoutError
            raise
        raise DeadlineExceeded(f"no result within {deadline_seconds:g} s") from None


@final
class Aside:
    """Run coroutines on threads of their own; close it when done."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self.num_abandoned = 0

    async def run(
        self, work: Callable[[], Awaitable[T]], deadline: float | Stopwatch, lane: str = "verdicts"
    ) -> T:
        """Return what `work()` returns; raise DeadlineExceeded, Blocked, Stopped, or what it raises.

        Work that another one kept from running, by blocking the lane's thread, is run again on a fresh one
        with all of its time.
        """
        clock = deadline if isinstance(deadline, Stopwatch) else Stopwatch(deadline)
        for _ in range(MAX_TRIES):
            current = self._lanes.get(lane) or self._fresh(lane)
            clock.restart()
            attempt = _Attempt(work, clock)
            try:
                return await attempt.on(current)
            except _Late:
                if not current.stopped and await current.answers():
                    break
                blocked_itself = attempt.is_running(current)
                self._abandon(lane, current)
                if blocked_itself:
                    within_time = f"no result within {clock.seconds:g} s"
                    raise Blocked(f"{within_time}: it kept its thread busy and did not await") from None
        raise DeadlineExceeded(f"no result within {clock.seconds:g} s")

    def close(self) -> None:
        """Stop the threads; what still runs in them is cancelled."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        for lane in lanes:
            lane.stop()
        for lane in lanes:
            lane.join()

    def _fresh(self, name: str) -> Lane:
        self._lanes[name] = Lane(name)
        return self._lanes[name]

    def _abandon(self, name: str, lane: Lane) -> None:
        if self._lanes.get(name) is lane:
            self.num_abandoned += 1
            self._fresh(name)
            # Once it comes free it must not go on with what others have been asked again.
            lane.stop()


class _Attempt(Generic[T]):
    """One try at some work on some lane."""

    def __init__(self, work: Callable[[], Awaitable[T]], clock: Stopwatch) -> None:
        self._work, self._clock = work, clock
        self._future: Future[T] = Future()
        self._task: asyncio.Task[T] | None = None
        self._given_up = False

    async def on(self, lane: Lane) -> T:
        """Return the result; raise _Late where there is none by the deadline."""
        # The coroutine is made on the lane: on one that never runs again, none is left unawaited.
        lane.submit(lambda: self._begin(lane))
        waiting = asyncio.wrap_future(self._future)
        try:
            while not waiting.done():
                left = self._clock.left()
                if left <= 0 or lane.stopped:
                    raise _Late
                await asyncio.wait({waiting}, timeout=min(left, BEAT_SECONDS))
            return waiting.result()
        finally:
            self._given_up = True
            if not waiting.done():
                waiting.cancel()
                lane.submit(self._cancel)

    def is_running(self, lane: Lane) -> bool:
        """Tell whether this work is what the lane's thread is executing."""
        return self._task is not None and asyncio.current_task(lane.loop) is self._task

    def _begin(self, lane: Lane) -> None:
        if not self._given_up and not lane.stopped:
            self._task = lane.loop.create_task(self._guarded())
            self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _guarded(self) -> T:
        try:
            return await self._work()
        except (SystemExit, KeyboardInterrupt) as error:
            raise Stopped(repr(error)) from error
        except asyncio.CancelledError as error:
            if self._given_up:
                raise
            raise Stopped("it cancelled itself") from error

    def _settle(self, task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or not self._future.set_running_or_notify_cancel():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())
