"""A program's link to its dispatcher: starts it and asks it from any thread."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, final

import posttrain
from posttrain.errors import RunFailed
from posttrain.sandbox.dispatcher import wire
from posttrain.sandbox.dispatcher.process import Start
from posttrain.sandbox.dispatcher.worker import interpreter

CHUNK = 1 << 16
SOURCE = str(Path(posttrain.__file__).parent.parent)
BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from posttrain.sandbox.dispatcher.process import main; main()"
)
END_SECONDS = 30.0
Answer = Future[Any]


class DispatcherLost(Exception):
    """The dispatcher ended before it answered."""


@final
class Dispatcher:
    """One dispatcher process and the requests it has not answered yet.

    A thread hears its answers, so that programs may ask from any event loop, or from none.
    """

    def __init__(self, start: Start) -> None:
        self._link, theirs = socket.socketpair()
        self._sending, self._numbers = threading.Lock(), itertools.count(1)
        self._ready = _expected()
        self._asked: dict[int, Answer] = {0: self._ready}
        self.lost = False
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [*interpreter(), "-c", BOOT, SOURCE, str(number), start.to_text()],
                env={"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath), **_temporary_folder()},
                pass_fds=[number], start_new_session=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
        threading.Thread(target=self._listen, name="sandbox", daemon=True).start()

    @property
    def process(self) -> int:
        """Return the id of the process that was started: the dispatcher's warden."""
        return self._process.pid

    async def ready(self) -> int:
        """Wait for the dispatcher, return its process id; RunFailed where it cannot start."""
        try:
            return int(await asyncio.wrap_future(self._ready))
        except RuntimeError as error:
            raise RunFailed(f"the sandbox did not start: {error}") from error

    async def ask(self, do: str, **message: Any) -> Any:
        """Return the answer to a request; a cancelled one is withdrawn, which ends its run."""
        number, answer = next(self._numbers), _expected()
        frame = wire.pack({"id": number, "do": do, **message})
        with self._sending:
            if self.lost:
                raise DispatcherLost("the dispatcher is gone")
            self._asked[number] = answer
            self._send(frame)
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            with self._sending:
                if not self.lost and self._asked.pop(number, None) is not None:
                    self._send(wire.pack({"id": number, "do": "cancel"}))
            raise

    async def close(self) -> None:
        """Hang up and wait until the dispatcher and all it started are gone."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Hang up and wait, from a program without an event loop."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, frame: bytes) -> None:
        with suppress(OSError):  # the listener notices that it is gone
            self._link.sendall(frame)

    def _listen(self) -> None:
        unpacker = wire.Unpacker()
        while True:
            try:
                piece = self._link.recv(CHUNK)
                messages = unpacker.feed(piece)
            except (OSError, ValueError):
                break
            if not piece:
                break
            for message in messages:
                self._settle(message)
        self._lose()

    def _settle(self, message: wire.Message) -> None:
        answer = self._asked.pop(int(message["id"]), None)
        if answer is None:
            return
        if "error" in message:
            answer.set_exception(RuntimeError(message["error"]))
        else:
            answer.set_result(message["result"])

    def _lose(self) -> None:
        with self._sending:
            self.lost = True
            waiting, self._asked = self._asked, {}
        self._link.close()
        for answer in waiting.values():
            answer.set_exception(DispatcherLost("the dispatcher is gone"))


def _expected() -> Answer:
    """Return an answer to come that one who stops waiting for it cannot take from the others."""
    answer: Answer = Future()
    answer.set_running_or_notify_cancel()
    return answer


def _temporary_folder() -> dict[str, str]:
    return {"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {}
