"""A thread with an event loop of its own, which can be left behind when something blocks it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import final

GRACE_SECONDS = 1.0
"""How long a loop may take to answer, and what still runs in it to end, before it counts as blocked."""


@final
class Lane:
    """Run callbacks and tasks on a thread; `stopped` tells that it takes no more."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Call `work` on the thread soon; a stopped lane may leave it out."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(work)

    async def answers(self) -> bool:
        """Tell whether the thread still takes work, or is blocked by a function that never yields."""
        beat: Future[None] = Future()
        self.submit(lambda: beat.set_result(None) if beat.set_running_or_notify_cancel() else None)
        waiting = asyncio.wrap_future(beat)
        done, _ = await asyncio.wait({waiting}, timeout=GRACE_SECONDS)
        waiting.cancel()
        return bool(done)

    def stop(self) -> None:
        """Take no more work; what runs is cancelled as soon as the thread is free."""
        self.stopped = True
        self.submit(self.loop.stop)

    def join(self) -> None:
        """Wait a moment for a stopped lane to end; a blocked one is left to the end of the process."""
        self._thread.join(GRACE_SECONDS)

    def _serve(self) -> None:
        while not self.stopped:
            # A user's task that exits ends the loop's run, not the lane.
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()
        self._drain()
        self.loop.close()

    def _drain(self) -> None:
        """Cancel what is left, so that no coroutine is dropped halfway or never begun."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            if tasks:
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE_SECONDS))
