"""Sessions keep files and state between runs, and can be replayed."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.sandbox import Limits, Local, LocalSandbox, Program, replay

sys.path.insert(0, str(Path(__file__).parent))
from opened import LEVELS, opened

QUICK = Limits(cpu_seconds=5.0, wall_seconds=20.0)


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    with opened(Local(workers=1, min_level=request.param, max_sessions=2)) as sandbox:
        yield sandbox


async def test_python_keeps_its_state_until_its_process_ends_and_files_stay(sandbox: LocalSandbox) -> None:
    session = await sandbox.session({"a.txt": b"given"}, QUICK)
    first = await session.run(Program("python", "x = 1; print(open('a.txt').read())"), QUICK)
    assert (first.status, first.stdout) == ("OK", b"given\n")
    assert (await session.run(Program("python", "x += 1; print(x)"), QUICK)).stdout == b"2\n"
    fed = Program("python", "import sys; print(sys.stdin.read(), sys.argv[1:])", ("a",), stdin=b"fed")
    assert (await session.run(fed, QUICK)).stdout == b"fed ['a']\n"
    failed = await session.run(Program("python", "raise SystemExit(3)"), QUICK)
    assert (failed.status, failed.exit_code) == ("RUNTIME_ERROR", 3)
    assert (await session.run(Program("python", "print(x)"), QUICK)).stdout == b"2\n"
    late = await session.run(Program("python", "while True: pass"), Limits(cpu_seconds=0.3, wall_seconds=20))
    assert late.status == "CPU_TIMEOUT"
    assert (await session.run(Program("python", "print(x)"), QUICK)).status == "RUNTIME_ERROR"
    assert (await session.run(Program("python", "print(open('a.txt').read())"), QUICK)).stdout == b"given\n"
    await session.close()
    assert (await session.run(Program("python", "print(1)"), QUICK)).status == "INFRA"


async def test_the_shell_keeps_folder_variables_and_functions(sandbox: LocalSandbox) -> None:
    session = await sandbox.session({}, QUICK)
    made = await session.run(Program("shell", "mkdir -p d; cd d; V=3; f() { echo f$V; }; false"), QUICK)
    assert (made.status, made.exit_code) == ("RUNTIME_ERROR", 1)
    used = await session.run(Program("shell", "f; basename $PWD; cat", stdin=b"fed"), QUICK)
    assert (used.status, used.stdout) == ("OK", b"f3\nd\nfed")
    left = await session.run(Program("shell", "exit 4"), QUICK)
    assert (left.status, left.exit_code) == ("RUNTIME_ERROR", 4)
    assert (await session.run(Program("shell", "echo [$V]; ls"), QUICK)).stdout == b"[]\nd\n"
    await session.close()


async def test_languages_share_the_box_of_a_session(sandbox: LocalSandbox) -> None:
    session = await sandbox.session({}, QUICK)
    await session.run(Program("python", "open('p.txt', 'w').write('from python')"), QUICK)
    assert (await session.run(Program("shell", "cat p.txt"), QUICK)).stdout == b"from python"
    await session.run(Program("command", "cp p.txt c.txt"), QUICK)
    result = await session.run(Program("python", "print(open('c.txt').read())", collect=("c.txt",)), QUICK)
    assert (result.stdout, result.files) == (b"from python\n", {"c.txt": b"from python"})
    await session.close()


async def test_the_log_of_a_session_can_be_replayed(sandbox: LocalSandbox) -> None:
    session = await sandbox.session({}, QUICK)
    for source in ("x = 20", "x += 1", "print(2 * x)"):
        await session.run(Program("python", source), QUICK)
    other = await sandbox.session({}, QUICK)
    again = await replay(session.log, other)
    assert [step.result.stdout for step in again] == [b"", b"", b"42\n"]
    assert [step.program for step in again] == [step.program for step in session.log]
    await session.close()
    await other.close()


async def test_no_more_sessions_than_allowed_and_closing_makes_room(sandbox: LocalSandbox) -> None:
    first, second = [await sandbox.session({}, QUICK) for _ in range(2)]
    with pytest.raises(Exception, match="max_sessions"):
        await sandbox.session({}, QUICK)
    await first.close()
    await first.close()
    third = await sandbox.session({}, QUICK)
    await second.close()
    await third.close()
