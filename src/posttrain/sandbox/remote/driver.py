"""Sent to a server as the program that runs: it answers calls there, with the code that answers them here.

It reads calls from a file and writes answers into another, which comes back with the result. Limits for each
call are alarms, so a candidate could switch them off: then the limit of the whole run holds.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from typing import TYPE_CHECKING, cast, final

if TYPE_CHECKING:
    from posttrain.sandbox.worker.conversation import Conversation

FOLDER = ".posttrain"
PROGRAM, CALLS, ANSWERS = f"{FOLDER}/program", f"{FOLDER}/calls", f"{FOLDER}/answers"
CPU_NOTE, WALL_NOTE = f"{FOLDER}/cpu", f"{FOLDER}/wall"
"""Files that hold something once a call was ended for its CPU or its wall time."""


@final
class Files:
    """A conversation by files: what `worker.conversation.Conversation` is by a socket."""

    def __init__(self, cpu_seconds: float, wall_seconds: float) -> None:
        self._limits = cpu_seconds, wall_seconds
        with open(CALLS, "rb") as calls:
            self._calls = calls.read()
        self._answers = os.open(ANSWERS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._notes = open(CPU_NOTE, "wb"), open(WALL_NOTE, "wb")  # noqa: SIM115 (until the end)
        for number, note in zip((signal.SIGPROF, signal.SIGALRM), self._notes, strict=True):
            # It writes whatever the interpreter is busy with, and then the signal ends the process.
            faulthandler.register(number, note, all_threads=False, chain=True)

    def read_body(self) -> bytes:
        """Return the next call and start its clocks; EOFError after the last one."""
        self._set(*self._limits)
        size = int.from_bytes(self._calls[:4], "big")
        body, self._calls = self._calls[4 : 4 + size], self._calls[4 + size :]
        if not body:
            self._set(0.0, 0.0)
            raise EOFError
        return body

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Append one frame to the answers."""
        rest = kind + len(body).to_bytes(4, "big") + body
        while rest:
            rest = rest[os.write(self._answers, rest) :]

    def _set(self, cpu_seconds: float, wall_seconds: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)


def main(cpu_seconds: float, wall_seconds: float) -> None:
    """Answer all calls."""
    sys.path.insert(0, FOLDER)
    from posttrain.sandbox.worker.payload import Payload
    from posttrain.sandbox.worker.python import answer_calls

    with open(PROGRAM, encoding="utf-8") as file:
        source = file.read()
    talk = Files(cpu_seconds, wall_seconds)
    talk._set(cpu_seconds, wall_seconds)
    answer_calls(Payload(source), cast("Conversation", talk))
    os._exit(0)
