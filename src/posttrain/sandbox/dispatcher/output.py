"""What a run prints: drained while it runs, kept up to a cap."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import final

PIECE = 1 << 15
MAX_PIECES = 64
MUCH = 16
"""Printing this many times what is kept counts as an output bomb."""


@final
class Output:
    """One pipe from a candidate: the first `cap` bytes are kept, the rest counted."""

    def __init__(self, cap: int, on_bomb: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading, self.theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.theirs, True)
        self.cap, self._on_bomb = cap, on_bomb
        self._kept, self._size = bytearray(), 0
        self._open = True
        self._loop.add_reader(self._reading, self._read)

    def take(self) -> tuple[bytes, bool]:
        """Return what was kept since the last time, and whether that is all."""
        self.drain()
        kept, whole = bytes(self._kept), self._size == len(self._kept)
        self._kept.clear()
        self._size = 0
        return kept, whole

    def drain(self) -> None:
        """Take what is in the pipe by now, even where somebody keeps writing."""
        for _ in range(MAX_PIECES):
            if not self._open or not self._read():
                break

    def hand_over(self) -> None:
        """Close the candidate's end here, once the candidate has it."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def close(self) -> None:
        """Stop reading; closing twice is allowed."""
        self.hand_over()
        if self._open:
            self._open = False
            self._loop.remove_reader(self._reading)
            os.close(self._reading)

    def _read(self) -> bool:
        piece = b""
        with suppress(BlockingIOError):
            piece = os.read(self._reading, PIECE)
            if not piece:
                self._loop.remove_reader(self._reading)
        self._size += len(piece)
        self._kept += piece[: max(0, self.cap - len(self._kept))]
        if self._size > MUCH * self.cap:
            self._on_bomb()
        return bool(piece)
