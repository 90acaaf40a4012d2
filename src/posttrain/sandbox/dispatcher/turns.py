"""A conversation with one candidate, call by call, on a thread of its own."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

from posttrain.protocols import Limits
from posttrain.sandbox.calls import Answer
from posttrain.sandbox.dispatcher.told import Told, failure
from posttrain.sandbox.worker.conversation import DEFINED, FAILED, HEAD, INDEX_BYTES, RAISED, VALUE
from posttrain.sandbox.worker.processes import cpu_seconds

START_SECONDS = 20.0
"""How long a candidate may take until its own code runs, on a machine however busy."""
ROOM_BYTES = 65_536
"""What an answer may be longer than a run's output: its encoding needs room."""
CHUNK = 1 << 15
_CREDENTIALS = struct.Struct("3i")
_LEAST_SECONDS = 0.001


class Answered(NamedTuple):
    """What came back for one call: the line of its value, or the account of what it raised."""

    is_value: bool
    body: bytes
    cpu_seconds: float

    def answer(self, memory_bytes: int) -> Answer:
        """Return it with the memory that its process used at most."""
        if self.is_value:
            return Answer("OK", self.body, "", self.cpu_seconds, memory_bytes)
        status, names, text = failure(self.body)
        return Answer(status, None, text, self.cpu_seconds, memory_bytes, names)


class _Over(Exception):
    """The conversation has come to its end."""


@final
class Turns:
    """Ask one thing at a time; an answer counts only for the call that is waiting.

    CPU time is that of the candidate's process as the kernel counts it, read when its answer arrives.
    `kill` ends the process. What it writes is untrusted, so frames are capped and descriptors that come
    along are not taken.
    """

    def __init__(
        self, ours: socket.socket, lines: Sequence[bytes], limits: Limits, kill: Callable[[], None]
    ) -> None:
        self._ours, self._lines, self._limits, self._kill = ours, lines, limits, kill
        self.told = Told()
        self.answered: list[Answered] = []
        self.is_defined = False
        self.fatal: Answer | None = None
        self._received = bytearray()
        self._process = 0
        self._cpu_before, self._began = 0.0, time.monotonic()
        self._max_bytes = limits.output_bytes + ROOM_BYTES

    @property
    def num_lines(self) -> int:
        return len(self._lines)

    def hold(self, payload: bytes) -> None:
        """Hold the whole conversation, until all is answered or the process has ended."""
        with self._ours:
            try:
                self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                self._wait_at_most(START_SECONDS)
                self._begin(payload)
                for index, line in enumerate(self._lines):
                    self._ask(index, line)
                self._ours.shutdown(socket.SHUT_WR)
            except (_Over, ConnectionError):
                return

    def _begin(self, payload: bytes) -> None:
        self._send(payload)
        self.told.hear(*self._next())
        self._wait_at_most(self._seconds_left())
        self._restart_clocks()
        kind, body = self._next()
        if kind == FAILED:
            status, names, text = failure(body)
            self.fatal = Answer(status, detail=text, raised=names)
            raise _Over
        if kind != DEFINED:
            self._end(Answer("TAMPERED", detail="an answer before the program was defined"))
        self._time_used()
        self.is_defined = True

    def _ask(self, index: int, line: bytes) -> None:
        """Send one call and take its answer."""
        self._restart_clocks()
        number = index.to_bytes(INDEX_BYTES, "big")
        self._send(b"".join(((len(line) + INDEX_BYTES).to_bytes(4, "big"), number, line)))
        kind, body = self._next()
        if kind not in (VALUE, RAISED) or body[:INDEX_BYTES] != number:
            self._end(Answer("TAMPERED", detail="an answer that nobody had asked for"))
        used = self._time_used()
        self.answered.append(Answered(kind == VALUE, body[INDEX_BYTES:], used))

    def _next(self) -> tuple[bytes, bytes]:
        """Return the candidate's next frame."""
        received = self._received
        while True:
            if len(received) >= HEAD:
                end = HEAD + int.from_bytes(received[1:HEAD], "big")
                if end > HEAD + self._max_bytes:
                    self._end(Answer("OUTPUT", detail="an answer that is too long"))
                if len(received) >= end:
                    kind, body = bytes(received[:1]), bytes(received[HEAD:end])
                    del received[:end]
                    return kind, body
            piece = self._receive()
            if not piece:
                raise _Over
            received += piece

    def _receive(self) -> bytes:
        while True:
            try:
                if self._process:
                    return self._ours.recv(CHUNK)
                return self._receive_first()
            except BlockingIOError:
                self._check_late()

    def _receive_first(self) -> bytes:
        """Take the first piece, with which the kernel tells the sender's process id as seen from here."""
        # Room for credentials only: descriptors that a candidate might send along never get in.
        piece, extra, _, _ = self._ours.recvmsg(CHUNK, socket.CMSG_SPACE(_CREDENTIALS.size))
        for _, kind, data in extra:
            if kind == socket.SCM_CREDENTIALS:
                self._process = _CREDENTIALS.unpack(data)[0]
        return piece

    def _send(self, message: bytes) -> None:
        while message:
            try:
                message = message[self._ours.send(message) :]
            except BlockingIOError:
                self._check_late()

    def _wait_at_most(self, seconds: float) -> None:
        """Let sending and receiving give up after that time, so that the clocks are looked at."""
        microseconds = int(max(seconds, _LEAST_SECONDS) * 1e6)
        interval = struct.pack("@ll", microseconds // 1_000_000, microseconds % 1_000_000)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)

    def _restart_clocks(self) -> None:
        self._cpu_before, self._began = cpu_seconds(self._process), time.monotonic()

    def _time_used(self) -> float:
        """Return the CPU time since the clocks were restarted; end what takes too much."""
        used = max(0.0, cpu_seconds(self._process) - self._cpu_before)
        if used > self._limits.cpu_seconds:
            self._end(Answer("CPU_TIMEOUT"))
        return used

    def _seconds_left(self) -> float:
        cpu = self._limits.cpu_seconds - max(0.0, cpu_seconds(self._process) - self._cpu_before)
        wall = self._limits.wall_seconds - (time.monotonic() - self._began)
        return min(cpu, wall)

    def _check_late(self) -> None:
        """End the conversation if waiting was too long, or wait for what is left."""
        if not self.told.ready:
            self._end(Answer("INFRA"))
        self._time_used()
        left = self._seconds_left()
        if left <= 0:
            self._end(Answer("WALL_TIMEOUT"))
        self._wait_at_most(left + _LEAST_SECONDS)

    def _end(self, answer: Answer) -> None:
        self.fatal = answer
        self._kill()
        raise _Over
