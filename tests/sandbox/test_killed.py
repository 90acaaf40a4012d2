"""Whoever is killed, at whatever instant: nothing is left, and no verdict is invented."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from posttrain.protocols import Case, Limits, Program
from posttrain.sandbox.interpreter import base_python
from posttrain.sandbox.local import Local, LocalSandbox

from . import watching

PYTHON = base_python()
ROOM = Limits(cpu_seconds=5.0, wall_seconds=20.0, memory_bytes=256 * 2**20, num_processes=8)
SLOW = "import time\ntime.sleep(1.0)\nprint('fine')"
STUBBORN = (
    "import os, signal, time\n"
    "for number in range(1, 65):\n"
    "    try: signal.signal(number, signal.SIG_IGN)\n"
    "    except (OSError, ValueError): pass\n"
    "for _ in range(3):\n"
    "    if os.fork() == 0:\n"
    "        os.setsid()\n"
    "        if os.fork(): os._exit(0)\n"
    "        break\n"
    "while True: time.sleep(1)\n"
)
"""A program that ignores every signal and has daemons."""


def below() -> list[watching.Process]:
    return watching.descendants(os.getpid())


def roles() -> dict[str, list[int]]:
    """Return the sandbox's processes by what they do, as far as their place in the tree tells."""
    warden = [process.number for process in below() if process.parent == os.getpid()]
    dispatcher = [process.number for process in below() if process.parent in warden]
    workers = [process.number for process in below() if process.parent in dispatcher]
    return {"warden": warden, "dispatcher": dispatcher, "workers": workers, "both": warden + dispatcher}


def kill(role: str) -> set[int]:
    """Kill all processes of a role; return every process that has to be gone then."""
    family = {process.number for process in below()} if role != "workers" else set(roles()["workers"])
    for process in roles()[role]:
        os.kill(process, signal.SIGKILL)
    return family


@pytest.fixture
async def sandbox() -> AsyncIterator[LocalSandbox]:
    with watching.traces() as traces:
        opened = await Local(workers=2).open()
        traces.note()
        yield opened
        traces.note()
        await opened.close()
        assert watching.eventually(lambda: not below()), below()
        assert watching.eventually(lambda: not traces.left()), traces.left()


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.05, 0.4])
async def test_a_killed_worker_costs_a_repetition_and_leaves_nothing(
    sandbox: LocalSandbox, delay: float
) -> None:
    count = len(below())
    running = asyncio.create_task(sandbox.run(Program("python", SLOW), ROOM))
    await asyncio.sleep(delay)
    kill("workers")
    result = await running
    assert (result.status, result.stdout) == ("OK", b"fine\n")
    assert watching.eventually(lambda: len(below()) <= count)


async def test_daemons_of_a_killed_worker_are_killed_too(sandbox: LocalSandbox) -> None:
    count = len(below())
    limits = Limits(cpu_seconds=5.0, wall_seconds=2.0, num_processes=8)
    running = asyncio.create_task(sandbox.run(Program("command", arguments=(PYTHON, "-c", STUBBORN)), limits))
    await asyncio.sleep(0.5)
    assert len(below()) > count + 1
    kill("workers")
    assert (await running).status == "WALL_TIMEOUT"
    assert watching.eventually(lambda: len(below()) <= count), below()


async def test_a_worker_that_dies_every_time_gives_no_verdict(sandbox: LocalSandbox) -> None:
    running = asyncio.create_task(sandbox.run(Program("python", "import time; time.sleep(600)"), ROOM))
    while not running.done():
        kill("workers")
        await asyncio.sleep(0.05)
    result = await running
    assert result.status == "INFRA"
    assert result.stderr
    assert (await sandbox.run(Program("python", "print(1)"), ROOM)).stdout == b"1\n"


@pytest.mark.parametrize(
    "delay", [0.0, 0.05, *(pytest.param(delay, marks=pytest.mark.slow) for delay in (0.003, 0.4))]
)
@pytest.mark.parametrize("role", ["dispatcher", "warden", "both"])
async def test_a_killed_dispatcher_takes_everything_along_and_is_replaced(
    sandbox: LocalSandbox, role: str, delay: float
) -> None:
    program = Program("command", arguments=(PYTHON, "-c", STUBBORN))
    stubborn = asyncio.create_task(sandbox.run(program, Limits(wall_seconds=1.0, num_processes=8)))
    running = asyncio.create_task(sandbox.run(Program("python", SLOW), ROOM))
    await asyncio.sleep(delay)
    family = kill(role)
    result = await running
    assert (result.status, result.stdout) == ("OK", b"fine\n")
    assert (await stubborn).status in ("WALL_TIMEOUT", "INFRA", "RUNTIME_ERROR")
    assert watching.eventually(lambda: not family & set(watching.processes()))


async def test_a_killed_dispatcher_passes_no_test(sandbox: LocalSandbox) -> None:
    cases = tuple(Case(at, "f", (at,)) for at in range(4))
    program = Program("python", "import time\ndef f(x):\n    time.sleep(0.3)\n    return x\n")
    running = asyncio.create_task(sandbox.test(program, cases, ROOM))
    await asyncio.sleep(0.5)
    kill("dispatcher")
    result = await running
    assert [case.status for case in result.cases] == ["OK"] * 4


TRAINER = """
import asyncio, signal, sys
from posttrain.protocols import Limits, Program
from posttrain.sandbox.local import Local

async def main():
    sandbox = await Local(workers=2, min_level=sys.argv[1]).open()
    limits = Limits(cpu_seconds=60, wall_seconds=60, num_processes=8)
    program = Program("command", arguments=(sys.argv[4], "-c", sys.argv[2]))
    runs = [asyncio.create_task(sandbox.run(program, limits)), asyncio.create_task(
        sandbox.run(Program("python", "import os\\nos.makedirs('a/' * 50)\\nwhile True: pass"), limits))]
    await asyncio.sleep(float(sys.argv[3]))
    print("running", flush=True)
    await asyncio.gather(*runs)

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background inherit that it is ignored
asyncio.run(main())
"""


@pytest.mark.parametrize("delay", [pytest.param("0", marks=pytest.mark.slow), "0.7"])
@pytest.mark.parametrize("level", ["landlock", "namespaces"])
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name
)
def test_a_killed_trainer_leaves_nothing(number: signal.Signals, level: str, delay: str) -> None:
    with watching.traces() as traces:
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER, level, STUBBORN, delay, PYTHON],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), **os.environ},
        )  # fmt: skip
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == "running\n"
        traces.note()
        family = {process.number for process in watching.descendants(trainer.pid)}
        assert family
        trainer.send_signal(number)
        trainer.wait(30)
        assert watching.eventually(lambda: not family & set(watching.processes()))
        assert watching.eventually(lambda: not traces.left()), traces.left()


async def test_a_run_that_nobody_waits_for_any_more_ends(sandbox: LocalSandbox) -> None:
    count = len(below())
    program = Program("command", arguments=(PYTHON, "-c", STUBBORN))
    for _ in range(3):
        running = asyncio.create_task(sandbox.run(program, ROOM))
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    result = await asyncio.wait_for(sandbox.run(Program("python", "print(1)"), ROOM), 15)
    assert result.stdout == b"1\n"
    assert watching.eventually(lambda: len(below()) <= count)
