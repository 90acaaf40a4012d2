"""What one box does, no other box notices: verdicts are the same beside bombs, and a thousand times."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from posttrain.protocols import Case, Limits, Program, TestResult
from posttrain.sandbox.local import Local, LocalSandbox

BOMB_LIMITS = Limits(
    cpu_seconds=1.0, wall_seconds=3.0, memory_bytes=128 * 2**20, output_bytes=4096, disk_bytes=4 * 2**20,
    num_processes=8, num_files=64,
)  # fmt: skip
BOMBS = {
    "processes": Program("shell", "b() { b | b & }; b; sleep 9"),
    "memory": Program("python", "hold = []\nwhile True: hold.append(bytearray(2 ** 22))"),
    "output": Program("shell", "yes"),
    "disk": Program("python", "at = 0\nwhile True:\n    open(f'f{at}', 'wb').write(bytes(2 ** 20)); at += 1"),
    "time": Program("python", "import threading\ndef go():\n    while True: pass\n"
                    "for _ in range(8): threading.Thread(target=go).start()"),
    "signals": Program("python", "import os\nfor n in range(2, 2 ** 16):\n    for s in (9, 19):\n"
                       "        try: os.kill(n, s)\n        except OSError: pass"),
    "files": Program("python", "import os\nfor _ in range(10 ** 6):\n    os.mkdir('d'); os.chdir('d')"),
}  # fmt: skip
SUM = Program("python", "def f(n):\n    return sum(range(n))\n")
CASES = tuple(Case(at * (at - 1) // 2, "f", (at,)) for at in (10, 1000, 30_000))
MISTAKE = Program("python", "def f(n):\n    return sum(range(n)) + (n == 1000)\n")
HONEST = Limits(cpu_seconds=5.0, wall_seconds=30.0, memory_bytes=256 * 2**20)


@pytest.fixture
async def sandbox() -> AsyncIterator[LocalSandbox]:
    opened = await Local(workers=8).open()
    yield opened
    await opened.close()


def statuses(result: TestResult) -> tuple[str, ...]:
    return tuple(case.status for case in result.cases)


async def rounds(sandbox: LocalSandbox, count: int) -> None:
    """Let seven honest neighbours be judged, again and again, beside each bomb in turn."""
    for at in range(count):
        bomb = asyncio.create_task(sandbox.run(list(BOMBS.values())[at % len(BOMBS)], BOMB_LIMITS))
        await asyncio.sleep(0.02)
        neighbours = (SUM, MISTAKE) * 3 + (SUM,)
        results = await asyncio.gather(*(sandbox.test(program, CASES, HONEST) for program in neighbours))
        for program, result in zip(neighbours, results, strict=True):
            expected = ("OK", "WRONG", "OK") if program is MISTAKE else ("OK",) * 3
            assert statuses(result) == expected, (list(BOMBS)[at % len(BOMBS)], result)
        assert (await bomb).status not in ("INFRA",)


async def test_seven_neighbours_of_a_bomb_keep_their_verdicts(sandbox: LocalSandbox) -> None:
    await rounds(sandbox, len(BOMBS))


@pytest.mark.slow
async def test_seven_neighbours_of_a_hundred_bombs_keep_their_verdicts(sandbox: LocalSandbox) -> None:
    await rounds(sandbox, 100)


SPY = Program("python", """
import os
found = []
for path in ("..", "../..", "/tmp", os.getcwd() + "/..", "/proc"):
    try: names = os.listdir(path)
    except OSError: continue
    found += [name for name in names if not name.isdigit()]
here = os.path.basename(os.getcwd())
stem = here.rpartition("-")[0]
for at in range(20):
    for name in (f"../{stem}-{at}", f"../box-{at}"):
        for file in ("mine.txt", "main.py"):
            try: print("READ", open(f"{name}/{file}").read())
            except OSError: pass
            if os.path.realpath(name) != os.getcwd():
                try: print("WROTE", open(f"{name}/{file}", "w").write("spied"))
                except OSError: pass
print("TRIED")
""")  # fmt: skip
KEEPER = Program("python", """
import os, time
kept = "kept-by-a-neighbour"
open("mine.txt", "w").write(kept)
time.sleep(1.0)
print(open("mine.txt").read(), sorted(os.listdir(".")))
""")  # fmt: skip


@pytest.mark.parametrize("level", ["landlock", "namespaces"])
async def test_a_spy_finds_nothing_of_its_neighbours(level: str) -> None:
    sandbox = await Local(workers=3, min_level=level).open()  # type: ignore[arg-type]
    try:
        keeper = asyncio.create_task(sandbox.run(KEEPER, HONEST))
        await asyncio.sleep(0.2)
        spied = await asyncio.gather(*(sandbox.run(SPY, HONEST) for _ in range(2)))
        for result in spied:
            assert result.stdout == b"TRIED\n", result
        assert (await keeper).stdout == b"kept-by-a-neighbour ['mine.txt']\n"
    finally:
        await sandbox.close()


VARIED = (
    (Program("python", "while True: pass"), Limits(cpu_seconds=0.1, wall_seconds=30.0), "CPU_TIMEOUT"),
    (Program("python", "print(sum(range(10 ** 5)))"), HONEST, "OK"),
    (Program("python", "1 / 0"), HONEST, "RUNTIME_ERROR"),
    (
        Program("python", "import time; time.sleep(60)"),
        Limits(cpu_seconds=5.0, wall_seconds=0.5),
        "WALL_TIMEOUT",
    ),
)


async def verdicts(sandbox: LocalSandbox, count: int) -> list[Counter[str]]:
    """Run each program `count` times, all at once, and count how it ended."""
    runs = [
        asyncio.gather(*(sandbox.run(program, limits) for _ in range(count))) for program, limits, _ in VARIED
    ]
    return [Counter(result.status for result in results) for results in await asyncio.gather(*runs)]


async def test_the_same_program_gets_the_same_verdict_under_load(sandbox: LocalSandbox) -> None:
    assert await verdicts(sandbox, 25) == [Counter({status: 25}) for _, _, status in VARIED]


@pytest.mark.slow
async def test_the_same_program_gets_the_same_verdict_a_thousand_times(sandbox: LocalSandbox) -> None:
    assert await verdicts(sandbox, 1000) == [Counter({status: 1000}) for _, _, status in VARIED]
