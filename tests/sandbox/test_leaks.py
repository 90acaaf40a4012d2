"""Many runs leave nothing: no process, zombie, descriptor or file, and memory stays as it was."""

from __future__ import annotations

import asyncio
import os

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


def everything(dispatcher: int) -> tuple[int, int, int, int]:
    """Count processes, zombies, the dispatcher's descriptors and this process's."""
    below = watching.descendants(os.getpid())
    zombies = sum(process.state == "Z" for process in below)
    return len(below), zombies, watching.descriptors(dispatcher), watching.descriptors(os.getpid())


async def check_that_nothing_leaks(warm_up: int, count: int) -> None:
    sandbox = await Local(workers=2, recycle_after=97).open()
    try:
        await use(sandbox, warm_up)
        dispatcher = await (await sandbox.dispatcher()).ready()
        before, memory = everything(dispatcher), watching.memory_bytes(dispatcher)
        await use(sandbox, count)
        assert watching.eventually(lambda: everything(dispatcher) <= before), (before, everything(dispatcher))
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
