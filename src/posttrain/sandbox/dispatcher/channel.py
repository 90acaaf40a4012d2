"""The dispatcher's end of a conversation: untrusted bytes in capped frames."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import final

from posttrain.sandbox.worker.conversation import HEAD

CHUNK = 1 << 15
BROKEN = b""
"""The kind of frame that stands for one too long to be taken."""
_CREDENTIALS = struct.Struct("3i")

OnFrame = Callable[[bytes, bytes], None]


@final
class Channel:
    """Send bytes to a candidate and hand each of its frames to `on_frame`.

    `process` is the candidate's id as seen from here, which the kernel states with its first frame. A frame
    longer than `max_bytes` ends the reading: `on_frame` is told BROKEN once, and what comes after is thrown
    away.
    """

    def __init__(self, on_frame: OnFrame, max_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._ours, self.theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._number = self._ours.fileno()
        self._on_frame, self._max_bytes = on_frame, max_bytes
        self._received, self._unsent = bytearray(), bytearray()
        self.process = 0
        self.broken = self._closed = self._writing = False
        self._loop.add_reader(self._number, self._read)

    def send(self, message: bytes) -> None:
        """Send now what fits, and the rest as the candidate reads."""
        if self._closed:
            return
        if not self._unsent:
            with suppress(BlockingIOError):
                message = message[self._sent(message) :]
        if message:
            self._unsent += message
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._number, self._write)

    def hang_up(self) -> None:
        """Tell the candidate that nothing more will be asked."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)

    def drain(self) -> None:
        """Take what is still unread; the candidate has ended, so there is nothing to wait for."""
        while not self._closed and self._read():
            pass

    def close(self) -> None:
        """Stop listening; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._number)
            if self._writing:
                self._loop.remove_writer(self._number)
            self._ours.close()
            self.theirs.close()

    def _sent(self, message: bytes | bytearray) -> int:
        try:
            return self._ours.send(message)
        except (BrokenPipeError, ConnectionResetError):
            return len(message)  # the candidate has ended; that is noticed elsewhere

    def _write(self) -> None:
        with suppress(BlockingIOError):
            del self._unsent[: self._sent(memoryview(self._unsent)[:CHUNK].tobytes())]
        if not self._unsent:
            self._writing = False
            self._loop.remove_writer(self._number)

    def _read(self) -> bool:
        """Take one piece in; tell whether there may be more."""
        try:
            piece = self._receive()
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            self._loop.remove_reader(self._number)
            return False
        self._received += piece
        self._take_frames()
        return True

    def _receive(self) -> bytes:
        if self.process:
            return self._ours.recv(CHUNK)
        # Room for credentials only: descriptors that a candidate might send along never get in.
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        piece, extra, _, _ = self._ours.recvmsg(CHUNK, room)
        for _, kind, data in extra:
            if kind == socket.SCM_CREDENTIALS:
                self.process = _CREDENTIALS.unpack(data)[0]
        return piece

    def _take_frames(self) -> None:
        received = self._received
        while len(received) >= HEAD and not self._closed and not self.broken:
            size = int.from_bytes(received[1:HEAD], "big")
            if size > self._max_bytes:
                self.broken = True
                self._on_frame(BROKEN, b"")
            elif len(received) < HEAD + size:
                return
            else:
                kind, body = bytes(received[:1]), bytes(received[HEAD : HEAD + size])
                del received[: HEAD + size]
                self._on_frame(kind, body)
        if self.broken:
            received.clear()
