"""The dispatcher's side of one worker process: start it, give it jobs, hear how they ended."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sysconfig
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import final

import posttrain
from posttrain.sandbox.interpreter import base_python
from posttrain.sandbox.worker.job import KILL, MAX_MESSAGE_BYTES, READY, USAGE, WIPE, Job, Setup

SOURCE = str(Path(posttrain.__file__).parent.parent)
BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from posttrain.sandbox.worker.main import main; main(int(sys.argv[2]))"
)
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "TZ": "UTC",
}
START_SECONDS = 60.0
END_SECONDS = 15.0
POLL_SECONDS = 0.005


class WorkerLost(Exception):
    """The worker ended, or a candidate never began: no verdict, and none of the program's doing."""


def interpreter() -> list[str]:
    """Return the command of a plain interpreter without site packages."""
    return [base_python(), "-S", "-s", "-P", "-B"]


def visible_to_workers() -> tuple[str, ...]:
    """List what a worker reads to come up: this package, the standard library, the interpreter."""
    return SOURCE, sysconfig.get_path("stdlib"), os.path.dirname(base_python())


@final
class Worker:
    """One worker process; it does one job at a time and answers in order."""

    def __init__(self, slot: int, setup: Setup, prefix: tuple[str, ...] = ()) -> None:
        self.slot, self.setup = slot, setup
        self.num_runs = 0
        self.lost = self._is_dirty = False
        self._loop = asyncio.get_running_loop()
        self._owed: deque[asyncio.Future[bytes]] = deque()
        self._usage: asyncio.Future[float] | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [*prefix, *interpreter(), "-c", BOOT, SOURCE, str(number)],
                env=ENVIRONMENT, cwd="/", pass_fds=[number], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self._loop.add_reader(self._control.fileno(), self._hear)
        self._is_up = self._ask(setup.to_bytes())

    @property
    def process(self) -> int:
        """Return the process id (of the outermost process, where the worker is wrapped)."""
        return self._process.pid

    @property
    def is_clean(self) -> bool:
        """Tell whether no run is under way and the box is as new."""
        return not self._owed and not self._is_dirty

    async def ready(self) -> None:
        """Wait until the worker takes jobs; WorkerLost where it does not come up."""
        try:
            async with asyncio.timeout(START_SECONDS):
                message = await self._is_up
        except TimeoutError:
            message = f"not within {START_SECONDS:g} s".encode()
        if message != READY:
            raise WorkerLost(f"worker {self.process} did not come up: {message.decode(errors='replace')}")

    def begin(self, job: Job, descriptors: list[int]) -> asyncio.Future[bytes]:
        """Start a job; the future gives the message that tells its end."""
        self.num_runs += 1
        self._is_dirty = job.keep
        return self._ask(job.to_bytes(), descriptors)

    def kill(self) -> None:
        """Ask the worker to end its run, if there is one."""
        with suppress(OSError):
            self._control.send(KILL)

    async def wipe(self) -> None:
        """Have the box emptied; nothing runs in it."""
        await self._ask(WIPE)
        self._is_dirty = False

    async def settle(self) -> None:
        """End what is under way and make the box as new."""
        self.kill()
        await self.wipe()

    async def used_seconds(self) -> float:
        """Return the CPU time that the run under way has used, all processes."""
        if self._usage is None:
            self._usage = self._loop.create_future()
            self._send(USAGE, [])
        return await asyncio.shield(self._usage)

    async def gone(self) -> None:
        """Hang up, so that the worker ends its run and leaves an empty box; wait until it has."""
        self._lose("it was told to go")
        deadline = self._loop.time() + END_SECONDS
        while self._process.poll() is None and self._loop.time() < deadline:
            await asyncio.sleep(POLL_SECONDS)
        self._process.kill()
        self._process.wait()

    def _ask(self, message: bytes, descriptors: list[int] | None = None) -> asyncio.Future[bytes]:
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._send(message, descriptors or [])
        self._owed.append(answer)
        return answer

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        if not self.lost:
            try:
                socket.send_fds(self._control, [message], descriptors)
            except OSError as error:
                self._lose(str(error))
        if self.lost:
            raise WorkerLost(f"worker {self.process} is gone")

    def _hear(self) -> None:
        try:
            message = self._control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self._lose("it has ended")
        elif message[:1].isdigit():
            if self._usage is not None:
                self._usage.set_result(float(message))
                self._usage = None
        elif self._owed:
            answer = self._owed.popleft()
            if not answer.done():  # nobody waits for it any more
                answer.set_result(message)

    def _lose(self, why: str) -> None:
        if self.lost:
            return
        self.lost = True
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for future in (*self._owed, self._usage):
            if future is not None and not future.done():
                future.set_exception(WorkerLost(f"worker {self.process}: {why}"))
        self._owed.clear()
