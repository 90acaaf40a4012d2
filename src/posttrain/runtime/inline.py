"""The inline runtime: users' asynchronous functions run beside the loop, each under a deadline.

They run on an event loop in a thread of its own, so a verifier that blocks or never returns costs its
own verdict and nothing else: the thread is abandoned and a fresh one takes over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
GRACE_SECONDS = 1.0
MAX_TRIES = 3
"""How often work is begun again after a neighbour has blocked the thread."""


class DeadlineExceeded(Exception):
    """The function did not finish in time."""


class _Late(Exception):
    """The deadline of one try has passed."""


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


class Aside:
    """Run coroutines on a thread of their own; close it when done."""

    def __init__(self) -> None:
        self._loop = _start_loop()
        self.num_abandoned = 0

    async def run(self, work: Callable[[], Awaitable[T]], deadline_seconds: float) -> T:
        """Return what `work()` returns; raise DeadlineExceeded, Stopped, or what it raises.

        Work that another one kept from running, by blocking the thread, is run again on the fresh one.
        """
        for _ in range(MAX_TRIES):
            attempt = _Attempt(work, deadline_seconds)
            loop = self._loop
            try:
                return await attempt.on(loop)
            except _Late:
                if await _answers(loop):
                    break
                blocked_itself = attempt.is_running(loop)
                self._abandon(loop)
                if blocked_itself:
                    break
        raise DeadlineExceeded(f"no result within {deadline_seconds:g} s")

    def close(self) -> None:
        """Stop the thread; what still runs in it is dropped."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop:
            self._loop = _start_loop()
            self.num_abandoned += 1
            # Once it comes free it must not go on with what others have been asked again.
            loop.call_soon_threadsafe(loop.stop)


class _Attempt(Generic[T]):
    """One try at some work on some loop."""

    def __init__(self, work: Callable[[], Awaitable[T]], deadline_seconds: float) -> None:
        self._work, self._deadline_seconds = work, deadline_seconds
        self._task: asyncio.Task[T] | None = None
        self._given_up = False

    async def on(self, loop: asyncio.AbstractEventLoop) -> T:
        """Return the result; raise _Late where there is none by the deadline."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(self._bounded(), loop)
        clock = asyncio.timeout(self._deadline_seconds + GRACE_SECONDS)
        try:
            async with clock:
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if clock.expired():
                raise _Late from None
            raise
        finally:
            self._given_up = True
            future.cancel()

    def is_running(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Tell whether this work is what the loop's thread is executing."""
        return self._task is not None and asyncio.current_task(loop) is self._task

    async def _bounded(self) -> T:
        self._task = asyncio.current_task()
        clock = asyncio.timeout(self._deadline_seconds)
        try:
            async with clock:
                return await self._work()
        except TimeoutError:
            # A TimeoutError of the work's own, from a socket say, is no missed deadline.
            if clock.expired():
                raise _Late from None
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            raise Stopped(repr(error)) from error
        except asyncio.CancelledError as error:
            if self._given_up:
                raise
            raise Stopped("it cancelled itself") from error


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="verdicts", daemon=True).start()
    return loop


async def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether a loop still takes work, or is blocked by a function that never yields."""
    beat = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
    try:
        await asyncio.wait_for(asyncio.wrap_future(beat), GRACE_SECONDS)
    except TimeoutError:
        return False
    return True
