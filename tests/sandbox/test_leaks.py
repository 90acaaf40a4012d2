"""Many runs leave nothing: no process, zombie, descriptor or file, and memory stays as it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass

import pytest

from posttrain.protocols import Case, Limits, Program, Status
from posttrain.sandbox.local import Local, LocalSandbox

from . import watching

QUICK = Limits(
    cpu_seconds=0.5, wall_seconds=5.0, memory_bytes=128 * 2**20, output_bytes=4096, disk_bytes=2**20,
    num_processes=4, num_files=64,
)  # fmt: skip
ONE = Limits(cpu_seconds=0.5, wall_seconds=5.0, memory_bytes=128 * 2**20, output_bytes=4096, disk_bytes=2**20)
LEAVING: tuple[tuple[Program, Limits, tuple[Status, ...]], ...] = (
    (Program("python", "print(1)"), ONE, ("OK",)),
    (Program("python", "raise SystemExit(3)"), ONE, ("RUNTIME_ERROR",)),
    (Program("python", "import ctypes; ctypes.string_at(0)"), ONE, ("RUNTIME_ERROR",)),
    (Program("python", "import os\nfor n in range(20): os.makedirs(f'a{n}/b/c'); open(f'a{n}/f', 'w')"),
     ONE, ("OK",)),
    (Program("python", "import os\nhold = [os.pipe() for _ in range(20)]", (), {}, b"x" * 200_000, ("none",)),
     ONE, ("OK",)),
    (Program("python", "import threading, time\nfor _ in range(5):\n"
             "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"), ONE, ("OK",)),
    (Program("shell", "sleep 60 & sleep 60 & setsid sleep 60 & echo x"), QUICK, ("OK",)),
    (Program("shell", "for i in 1 2 3; do (exit 1) & done; sleep 60 & exec 1>&- 2>&-"), QUICK, ("OK",)),
    (Program("python", "print('x' * 100_000)"), ONE, ("OK", "OUTPUT")),
    (Program("python", "open('big', 'wb').write(bytes(2 ** 22))"), ONE, ("DISK", "RUNTIME_ERROR")),
    (Program("python", "hold = bytearray(2 ** 30)"), ONE, ("MEMORY", "RUNTIME_ERROR")),
)  # fmt: skip
"""Programs that leave something behind in one way or another, and how they may end."""
CALLED = Program("python", "import os\ndef f(x):\n    if x == 2: os._exit(0)\n    return [x] * 50\n")
CASES = tuple(Case([at] * 50, "f", (at,)) for at in range(4))


async def use(sandbox: LocalSandbox, count: int) -> None:
    """Do `count` runs and tests of all kinds, several at a time; each must end as it should."""
    gate = asyncio.Semaphore(4)

    async def once(at: int) -> None:
        async with gate:
            if at % 8 == 0:
                result = await sandbox.test(CALLED, CASES, ONE)
                assert [case.status for case in result.cases] == ["OK", "OK", "RUNTIME_ERROR", "OK"], result
            else:
                program, limits, ends = LEAVING[at % len(LEAVING)]
                run = await sandbox.run(program, limits)
                assert run.status in ends, (program, run)

    await asyncio.gather(*(once(at) for at in range(count)))


WORKERS = 2
AT_REST = WORKERS + 2
"""The processes of a sandbox in which nothing runs: a dispatcher, its warden, and the workers."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a sandbox holds: processes, zombies, the dispatcher's descriptors and this process's."""

    processes: int
    zombies: int
    dispatcher_descriptors: int
    own_descriptors: int

    @classmethod
    def of(cls, dispatcher: int) -> Holdings:
        """Count what there is now."""
        below = watching.descendants(os.getpid())
        zombies = sum(process.state == "Z" for process in below)
        return cls(len(below), zombies, watching.descriptors(dispatcher), watching.descriptors(os.getpid()))

    def exceed(self, other: Holdings) -> bool:
        """Tell whether there is more of any one thing."""
        return any(getattr(self, name) > getattr(other, name) for name in Holdings.__slots__)


def test_holding_more_of_one_thing_is_not_made_up_for_by_less_of_another() -> None:
    before = Holdings(4, 0, 10, 22)
    assert Holdings(3, 1, 10, 22).exceed(before)
    assert Holdings(4, 0, 10, 23).exceed(before)
    assert not Holdings(3, 0, 9, 22).exceed(before)


async def check_that_nothing_leaks(warm_up: int, count: int) -> None:
    sandbox = await Local(workers=WORKERS, recycle_after=97).open()
    try:
        dispatcher = await (await sandbox.dispatcher()).ready()
        before = Holdings.of(dispatcher)  # nothing has run yet, so nothing is under way
        assert (before.processes, before.zombies) == (AT_REST, 0)
        await use(sandbox, warm_up)
        memory = watching.memory_bytes(dispatcher)
        await use(sandbox, count)
        assert watching.eventually(lambda: not Holdings.of(dispatcher).exceed(before)), (
            before,
            Holdings.of(dispatcher),
        )
        assert watching.memory_bytes(dispatcher) <= memory + 8 * 2**20
        assert all(
            watching.memory_bytes(process.number) < 40 * 2**20
            for process in watching.descendants(dispatcher)
            if process.state != "Z"
        )
    finally:
        await sandbox.close()


async def test_some_hundred_runs_leave_nothing() -> None:
    before = watching.descriptors(os.getpid())
    with watching.traces() as traces:
        await check_that_nothing_leaks(100, 200)
        assert watching.eventually(lambda: not watching.descendants(os.getpid()))
        assert traces.left() == []
    assert watching.descriptors(os.getpid()) <= before


async def test_workers_that_are_lost_when_they_are_worn_are_replaced_once() -> None:
    sandbox = await Local(workers=WORKERS, recycle_after=1).open()
    try:
        await sandbox.run(Program("python", "print(1)"), ONE)
        dispatcher = await (await sandbox.dispatcher()).ready()
        for _ in range(10):
            runs = [asyncio.create_task(sandbox.run(Program("python", "print(1)"), ONE)) for _ in range(4)]
            await asyncio.sleep(0.01)
            for process in watching.descendants(dispatcher):
                if process.parent == dispatcher and process.state != "Z":
                    with contextlib.suppress(OSError):
                        os.kill(process.number, signal.SIGKILL)
            await asyncio.gather(*runs)
        assert (await sandbox.run(Program("python", "print(1)"), ONE)).status == "OK"
        assert watching.eventually(lambda: Holdings.of(dispatcher).processes == AT_REST)
    finally:
        await sandbox.close()


@pytest.mark.slow
async def test_ten_thousand_runs_leave_nothing() -> None:
    await check_that_nothing_leaks(500, 10_000)
    assert watching.eventually(lambda: not watching.descendants(os.getpid()))


async def test_sessions_leave_nothing() -> None:
    sandbox = await Local(workers=1).open()
    try:
        await (await sandbox.session({})).close()
        before = len(watching.descendants(os.getpid()))
        for _ in range(5):
            session = await sandbox.session({"f": b"x"})
            await session.run(Program("shell", "sleep 600 & setsid sleep 600 &"), QUICK)
            await session.run(Program("python", "import os; os.mkdir('d'); x = bytearray(10 ** 7)"), ONE)
            await session.close()
        assert watching.eventually(lambda: len(watching.descendants(os.getpid())) <= before)
    finally:
        await sandbox.close()
