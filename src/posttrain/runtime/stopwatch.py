"""Time that is left until a deadline; it stands still while the work waits for what it cannot hasten."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import final


@final
class Stopwatch:
    """Count down `seconds`, except while paused; safe between threads."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._now = seconds, now
        self._lock = threading.Lock()
        self._used, self._since = 0.0, now()
        self._pauses: set[object] = set()

    def restart(self) -> None:
        """Begin anew with all the time; pauses under way are forgotten."""
        with self._lock:
            self._used, self._since = 0.0, self._now()
            self._pauses.clear()

    def pause(self) -> object:
        """Stop the time and return what `resume` wants; it goes on when no pause is left."""
        token = object()
        with self._lock:
            if not self._pauses:
                self._used += self._now() - self._since
            self._pauses.add(token)
        return token

    def resume(self, token: object) -> None:
        """End a pause; one that is over or forgotten changes nothing."""
        with self._lock:
            if token in self._pauses:
                self._pauses.remove(token)
                self._since = self._now()

    def left(self) -> float:
        """Return the seconds left, 0 or less once the deadline has passed, infinity while paused."""
        with self._lock:
            if self._pauses:
                return math.inf
            return self.seconds - self._used - (self._now() - self._since)
