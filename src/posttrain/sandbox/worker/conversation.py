"""A candidate's end of its conversation with the dispatcher, in frames."""

from __future__ import annotations

import json
import os
from typing import Any, final

READY, DEFINED, VALUE, RAISED, FAILED, DONE = b"R", b"D", b"V", b"E", b"F", b"."
"""What candidates say: user code starts; the program is defined; a call's value; what a call raised; the
program itself failed; a session's run is over."""

HEAD, INDEX_BYTES = 5, 4
"""Bytes of a frame's letter and length; of a call's number, which its answer repeats."""
CHUNK, LITTLE = 1 << 20, 1 << 14


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """Return one frame."""
    return kind + len(body).to_bytes(4, "big") + body


@final
class Conversation:
    """Read what the dispatcher sends and answer it, over a socket that was inherited.

    Without `reads_ahead` it takes exactly what is asked for: what follows is for the next program.
    """

    def __init__(self, descriptor: int, reads_ahead: bool = True) -> None:
        self.descriptor, self._least = descriptor, LITTLE if reads_ahead else 0
        self._buffer = b""

    def read(self, count: int) -> bytes:
        """Return exactly `count` bytes; EOFError where the dispatcher has hung up."""
        while len(self._buffer) < count:
            more = os.read(self.descriptor, max(self._least, min(CHUNK, count - len(self._buffer))))
            if not more:
                raise EOFError
            self._buffer += more
        found, self._buffer = self._buffer[:count], self._buffer[count:]
        return found

    def read_body(self) -> bytes:
        """Return the next length-prefixed body."""
        return self.read(int.from_bytes(self.read(4), "big"))

    def read_json(self) -> Any:
        """Return the next body as JSON."""
        return json.loads(self.read_body())

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Send one frame, however long it takes."""
        rest = memoryview(frame(kind, body))
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]


def save(conversation: Conversation, size: int, descriptor: int) -> None:
    """Copy the next `size` bytes to a file, piece by piece."""
    while size:
        piece = conversation.read(min(size, CHUNK))
        size -= len(piece)
        while piece:
            piece = piece[os.write(descriptor, piece) :]
