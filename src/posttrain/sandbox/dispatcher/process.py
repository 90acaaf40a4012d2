"""The dispatcher's process: requests in, answers out; and the warden that survives it.

The process that is executed stays small and waits: whatever end the dispatcher comes to, the warden ends
all that is left of its workers and removes their boxes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, final

from posttrain.sandbox.confine import Level
from posttrain.sandbox.confine.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    prctl,
)
from posttrain.sandbox.dispatcher import wire
from posttrain.sandbox.dispatcher.place import Place
from posttrain.sandbox.worker import processes

CHUNK = 1 << 16
FAREWELL_SECONDS = 20.0
COLLECT_AFTER = 20_000
"""Allocations between two collections of garbage: requests leave hardly any, and runs feel each pause."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a dispatcher is started with."""

    num_workers: int
    level: int
    import_folders: tuple[str, ...]
    recycle_after: int
    max_sessions: int
    retries: int
    bubblewrap: str
    landlock_abi: int | None

    def to_text(self) -> str:
        """Return it as a word of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Start:
        """Read what `to_text` wrote."""
        data = json.loads(text)
        data["import_folders"] = tuple(data["import_folders"])
        return cls(**data)


@final
class Requests:
    """Serve the requests of one program until it hangs up."""

    def __init__(self, link: socket.socket, start: Start, place: Place) -> None:
        from posttrain.sandbox.dispatcher.pool import Pool, Staff
        from posttrain.sandbox.dispatcher.service import Service
        from posttrain.sandbox.dispatcher.sessions import Session

        self._link, self._start, self._place = link, start, place
        self._loop = asyncio.get_running_loop()
        self._staff = Staff(start.num_workers, start.recycle_after, start.retries, start.bubblewrap)
        self._pool = Pool(place, self._staff)
        self._service: Final = Service(self._pool)
        self._sessions: dict[int, Session] = {}
        self._make_session: Final = Session
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._unsent = bytearray()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._work: Final[dict[str, Callable[[wire.Message], Awaitable[Any]]]] = {
            "run": self._run, "call": self._call, "test": self._test,
            "open": self._open_session, "step": self._step, "close": self._close_session,
        }  # fmt: skip

    async def serve(self) -> None:
        """Answer until the other side is gone."""
        await self._pool.open()
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER)
        self._link.setblocking(False)
        unpacker = wire.Unpacker()
        self._loop.add_reader(self._link.fileno(), self._hear, unpacker)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._hang_up)
        self._send({"id": 0, "result": os.getpid()})
        await self._over

    async def close(self) -> None:
        """End every run, session and worker."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in self._sessions.values():
            with suppress(Exception):
                await session.close()
        await self._service.compiler.close()
        await self._pool.close()

    def _hang_up(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _hear(self, unpacker: wire.Unpacker) -> None:
        try:
            piece = self._link.recv(CHUNK)
            messages = unpacker.feed(piece)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            piece, messages = b"", []
        if not piece:
            self._loop.remove_reader(self._link.fileno())
            self._hang_up()
        for message in messages:
            self._take(message)

    def _take(self, message: wire.Message) -> None:
        number = int(message["id"])
        if message["do"] == "cancel":
            task = self._tasks.get(number)
            if task is not None:
                task.cancel()
            return
        task = self._loop.create_task(self._answer(number, message))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    async def _answer(self, number: int, message: wire.Message) -> None:
        try:
            answer = {"id": number, "result": await self._work[message["do"]](message)}
            frame = wire.pack(answer)
        except asyncio.CancelledError:
            return
        except Exception as error:  # a request must have an answer, whatever went wrong with it
            frame = wire.pack({"id": number, "error": f"{type(error).__name__}: {error}"[:4000]})
        self._send_frame(frame)

    def _send(self, message: wire.Message) -> None:
        self._send_frame(wire.pack(message))

    def _send_frame(self, frame: bytes) -> None:
        if not self._unsent:
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                frame = frame[self._link.send(frame) :]
        if frame:
            if not self._unsent:
                self._loop.add_writer(self._link.fileno(), self._write)
            self._unsent += frame

    def _write(self) -> None:
        try:
            del self._unsent[: self._link.send(memoryview(self._unsent)[:CHUNK].tobytes())]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._link.fileno())

    async def _run(self, message: wire.Message) -> list[Any]:
        program, limits = wire.to_program(message["program"]), wire.to_limits(message["limits"])
        return wire.from_run(await self._service.run(program, limits))

    async def _call(self, message: wire.Message) -> list[list[Any]]:
        program, limits = wire.to_program(message["program"]), wire.to_limits(message["limits"])
        lines = [text.encode("ascii") for text in message["calls"]]
        return [wire.from_answer(a) for a in await self._service.call_lines(program, lines, limits)]

    async def _test(self, message: wire.Message) -> list[Any]:
        program, limits = wire.to_program(message["program"]), wire.to_limits(message["limits"])
        cases = [wire.to_case(case) for case in message["cases"]]
        return wire.from_test(await self._service.test(program, cases, limits))

    async def _open_session(self, message: wire.Message) -> int:
        if len(self._sessions) >= self._start.max_sessions:
            raise RuntimeError(
                f"{len(self._sessions)} sessions are open, the most allowed: close some or raise max_sessions"
            )
        limits = wire.to_limits(message["limits"])
        session = self._make_session(self._place, self._staff, self._service.compiler, limits)
        self._sessions[session.slot] = session
        files = wire.to_files(message["files"])
        if files:
            written = await session.write(files)
            if written.status != "OK":
                del self._sessions[session.slot]
                await session.close()
                raise RuntimeError(f"the session's files could not be written: {written.stderr.decode()}")
        return session.slot

    async def _step(self, message: wire.Message) -> list[Any]:
        program, limits = wire.to_program(message["program"]), wire.to_limits(message["limits"])
        return wire.from_run(await self._sessions[message["session"]].run(program, limits))

    async def _close_session(self, message: wire.Message) -> None:
        session = self._sessions.pop(message["session"], None)
        if session is not None:
            await session.close()


async def _dispatch(link: socket.socket, start: Start, place: Place) -> None:
    requests = Requests(link, start, place)
    try:
        await requests.serve()
    except Exception as error:
        with suppress(OSError):
            link.sendall(wire.pack({"id": 0, "error": str(error)}))
    finally:
        await requests.close()


def main() -> None:
    """Start the dispatcher as the command line says, and outlive it."""
    descriptor, settings = int(sys.argv[1]), Start.from_text(sys.argv[2])
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    warden = os.getpid()
    place = Place(Level(settings.level), settings.import_folders, settings.landlock_abi)
    dispatcher = os.fork()
    if dispatcher == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            if os.getppid() == warden:
                asyncio.run(_dispatch(socket.socket(fileno=descriptor), settings, place))
        finally:
            if os.getppid() != warden:
                place.remove()
            os._exit(0)
    os.close(descriptor)
    _watch_over(dispatcher, place)


def _watch_over(dispatcher: int, place: Place) -> None:
    """Wait for the dispatcher's end, then end and remove all that it has left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(dispatcher, signal.SIGTERM))
    while True:
        process, _ = os.waitpid(-1, 0)
        if process == dispatcher:
            break
    with suppress(TimeoutError):
        processes.end_all(dispatcher, lambda: False)
    place.remove()


if __name__ == "__main__":
    main()
