"""Ctrl-C and SIGTERM: the first asks the run to stop after its step, the second stops at once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[asyncio.Event]:
    """Yield an event that a signal sets; must be entered on a running event loop."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        print("\nstopping after this step; once more stops at once", file=sys.stderr)
        event.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ask, number)
    try:
        yield event
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
