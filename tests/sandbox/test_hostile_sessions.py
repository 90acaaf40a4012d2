"""What a policy does to its session costs it no more than that session's runs, never their verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from posttrain.protocols import Limits, Program, RunResult
from posttrain.sandbox.local import Local, LocalSandbox

LIMITS = Limits(cpu_seconds=2.0, wall_seconds=5.0, memory_bytes=256 * 2**20, disk_bytes=2**22)
BRIEF = replace(LIMITS, cpu_seconds=0.5, wall_seconds=1.5)
SPOILT = (
    "import os\n"
    "os.mkdir('folder'), os.symlink('/tmp', 'link'), os.symlink('/etc/hostname', 'file'), os.mkfifo('pipe')\n"
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    opened = asyncio.run(Local(workers=1).open())
    yield opened
    asyncio.run(opened.close())


def python(source: str, **files: bytes) -> Program:
    return Program("python", source, files=files)


@pytest.mark.parametrize("name", ["folder", "file", "pipe"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_file_is_written_over_whatever_has_its_name(
    sandbox: LocalSandbox, name: str, restarted: bool
) -> None:
    session = await sandbox.session({}, LIMITS)
    await session.run(python(SPOILT), LIMITS)
    if restarted:
        await session.run(python("import os; os._exit(3)"), LIMITS)
    result = await session.run(python(f"print(open({name!r}).read())", **{name: b"fresh"}), LIMITS)
    if name == "folder":
        assert result.status == "RUNTIME_ERROR"
    else:
        assert (result.status, result.stdout) == ("OK", b"fresh\n")
    assert (await session.run(python("print(1)"), LIMITS)).stdout == b"1\n"
    await session.close()


async def test_a_file_does_not_go_through_a_link_out_of_the_box(sandbox: LocalSandbox) -> None:
    session = await sandbox.session({}, LIMITS)
    await session.run(python(SPOILT), LIMITS)
    result = await session.run(Program("python", "print(1)", files={"link/pt-escape": b"x"}), LIMITS)
    assert result.status == "RUNTIME_ERROR"
    collecting = Program("python", "", collect=("file", "pipe", "folder", "link/pt-escape"))
    assert (await session.run(collecting, LIMITS)).files == {}
    await session.close()


FORGE = (
    "import os\n"
    "for number in range(3, 64):\n"
    "    for frame in (b'.' + (1).to_bytes(4, 'big') + b'0', b'R' + bytes(4), b'V' + b'\\xff' * 4):\n"
    "        try: os.write(number, frame)\n"
    "        except OSError: pass\n"
)


@pytest.mark.parametrize(
    "source",
    [
        "import os; os._exit(0)",
        "import os; os.closerange(0, 64)",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os.chmod('.', 0)",
        "open('big', 'wb').write(bytes(2 ** 23))",
        "hold = bytearray(2 ** 30)",
        "while True: pass",
        "import sys; sys.modules.clear(); sys.stdout = None",
        "import builtins; builtins.compile = builtins.exec = builtins.open = None",
        "import os\nos.read = os.write = os.dup2 = None",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
        FORGE,
        f"import threading\ndef go():\n    while True: exec({FORGE!r})\n"
        "threading.Thread(target=go, daemon=True).start()",
    ],
)  # fmt: skip
async def test_whatever_was_run_the_next_runs_have_an_end_and_a_verdict(
    sandbox: LocalSandbox, source: str
) -> None:
    session = await sandbox.session({}, BRIEF)
    results: list[RunResult] = [await session.run(python(source), BRIEF)]
    results += [await session.run(python("print(1)"), BRIEF) for _ in range(3)]
    results.append(await session.run(Program("shell", "echo 1"), BRIEF))
    assert "INFRA" not in [result.status for result in results], results
    await session.close()
    assert (await sandbox.run(python("print(2)"), LIMITS)).stdout == b"2\n"


@pytest.mark.parametrize(
    "spoil",
    [
        "mkdir .stdin",
        "mkfifo .stdin",
        "ln -s /etc/passwd .stdin",
        "touch .stdin; chmod 0 .stdin",
        "chmod 0 .",
    ],
)
async def test_a_shell_cannot_get_rid_of_verdicts_by_what_it_puts_where_input_goes(
    sandbox: LocalSandbox, spoil: str
) -> None:
    session = await sandbox.session({}, BRIEF)
    runs = [Program("shell", spoil), Program("shell", "cat", stdin=b"x"), Program("shell", "echo 1")]
    results = [await session.run(program, BRIEF) for program in runs]
    assert "INFRA" not in [result.status for result in results], results
    await session.close()
