"""The HTTP sandbox against its own server, and against one that speaks SandboxFusion's form alone."""

import asyncio
import base64
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from posttrain.contracts.sandbox import check_sandbox
from posttrain.errors import InputError
from posttrain.protocols import Case, Limits, Program
from posttrain.sandbox.local import Local
from posttrain.sandbox.remote.client import Remote, RemoteSandbox
from posttrain.sandbox.remote.server import application

from .serving import serving


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """Lend a real local sandbox."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        sandbox = await Local(workers=1).open()
        app.mount("/", application(sandbox))
        yield
        await sandbox.close()

    with serving(Starlette(lifespan=lifespan)) as url:
        yield url


async def fusion(request: Request) -> Response:
    """Answer as SandboxFusion does for Python and bash: unknown fields are ignored."""
    asked = await request.json()
    command = {"python": [sys.executable, "main"], "bash": ["/bin/bash", "main"]}.get(asked["language"])
    if command is None:
        return JSONResponse({"detail": "Input should be 'python', 'cpp', …"}, status_code=422)
    return await asyncio.to_thread(_run_as_fusion, asked, command)


def _run_as_fusion(asked: dict[str, Any], command: Sequence[str]) -> Response:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in asked["files"].items():
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_bytes(base64.b64decode(content))
        Path(folder, "main").write_text(asked["code"])
        result: dict[str, Any]
        try:
            done = subprocess.run(
                command, cwd=folder, input=(asked["stdin"] or "").encode(), capture_output=True,
                timeout=asked["run_timeout"], check=False,
            )  # fmt: skip
            result = {"status": "Finished", "return_code": done.returncode, "execution_time": 0.1}
            result |= {
                "stdout": done.stdout.decode(errors="replace"),
                "stderr": done.stderr.decode(errors="replace"),
            }
        except subprocess.TimeoutExpired:
            result = {
                "status": "TimeLimitExceeded",
                "execution_time": asked["run_timeout"],
                "stdout": "",
                "stderr": "",
            }
        files = {
            name: base64.b64encode(Path(folder, name).read_bytes()).decode()
            for name in asked["fetch_files"]
            if Path(folder, name).is_file()
        }
    good = result.get("return_code") == 0
    return JSONResponse({
        "status": "Success" if good else "Failed", "message": "", "executor_pod_name": None,
        "compile_result": None, "run_result": result, "files": files,
    })  # fmt: skip


@pytest.fixture(scope="module")
def fusion_server() -> Iterator[str]:
    with serving(Starlette(routes=[Route("/run_code", fusion, methods=["POST"])])) as url:
        yield url


@pytest.fixture
async def own(own_server: str) -> AsyncIterator[RemoteSandbox]:
    sandbox = await Remote(own_server, retries=0).open()
    yield sandbox
    await sandbox.close()


@pytest.fixture
async def other(fusion_server: str) -> AsyncIterator[RemoteSandbox]:
    sandbox = await Remote(fusion_server, retries=0).open()
    yield sandbox
    await sandbox.close()


async def test_a_sandbox_behind_the_server_keeps_the_whole_contract(own: RemoteSandbox) -> None:
    assert await check_sandbox(own) == []


async def test_everything_that_a_program_is_and_that_comes_back_survives_the_way(own: RemoteSandbox) -> None:
    program = Program(
        "python",
        "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d[::-1] + sys.argv[1].encode());"
        "open('out', 'wb').write(open('in', 'rb').read() * 2)",
        arguments=("é 'quoted'",),
        files={"in": b"\xff\x00"},
        stdin=b"\x80\xff\n",
        collect=("out", "missing"),
    )
    result = await own.run(program)
    assert (result.status, result.exit_code, result.truncated) == ("OK", 0, False)
    assert result.stdout == b"\n\xff\x80" + "é 'quoted'".encode()
    assert result.files == {"out": b"\xff\x00\xff\x00"}
    assert result.cpu_seconds > 0
    assert result.peak_memory_bytes > 2**20


async def test_a_command_keeps_its_words(own: RemoteSandbox, other: RemoteSandbox) -> None:
    program = Program("command", "printf '<%s>'", arguments=("a b", "$HOME", "'", ""))
    for sandbox in (own, other):
        result = await sandbox.run(program, Limits(num_processes=4))
        assert result.stdout == b"<a b><$HOME><'><>"


async def test_a_common_server_is_understood(other: RemoteSandbox) -> None:
    fine = await other.run(Program("python", "print(input() + 'é')", stdin="ü".encode()))
    assert (fine.status, fine.exit_code, fine.stdout) == ("OK", 0, "üé\n".encode())
    failed = await other.run(Program("shell", "echo wrong >&2; exit 7"))
    assert (failed.status, failed.exit_code, failed.stderr) == ("RUNTIME_ERROR", 7, b"wrong\n")
    late = await other.run(Program("python", "import time; time.sleep(60)"), Limits(wall_seconds=0.3))
    assert (late.status, late.exit_code) == ("WALL_TIMEOUT", None)
    flood = await other.run(Program("python", "print('x' * 9000)"), Limits(output_bytes=1000))
    assert (flood.status, len(flood.stdout), flood.truncated) == ("OUTPUT", 1000, True)
    files = await other.run(
        Program("python", "open('a/b', 'ab').write(b'!')", files={"a/b": b"x"}, collect=("a/b",))
    )
    assert files.files == {"a/b": b"x!"}


CASES = (
    Case(8, "double", (4,)),
    Case([1, 2, 1, 2], "double", ([1, 2],)),
    Case(9, "double", (4,)),
    Case(8, "nothing", (4,)),
    Case("aa", "double", ("a",)),
)


@pytest.fixture(params=["own_server", "fusion_server"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def either(url: str) -> AsyncIterator[RemoteSandbox]:
    sandbox = await Remote(url, retries=0).open()
    yield sandbox
    await sandbox.close()


async def test_functions_are_judged_alike_by_both_servers(either: RemoteSandbox) -> None:
    result = await either.test(Program("python", "def double(x):\n    return x + x\n"), CASES)
    assert [case.status for case in result.cases] == ["OK", "OK", "WRONG", "RUNTIME_ERROR", "OK"]
    assert result.status != "OK"


FALLS = """
def f(x):
    if x == 1: import os; os._exit(0)
    if x == 2:
        while True: pass
    if x == 3: import time; time.sleep(60)
    if x == 4: raise SystemExit(0)
    return x
"""


async def test_a_call_that_ends_its_process_fails_alone(either: RemoteSandbox) -> None:
    cases = tuple(Case(at, "f", (at,)) for at in range(6))
    limits = Limits(cpu_seconds=0.4, wall_seconds=1.5)
    result = await either.test(Program("python", FALLS), cases, limits)
    statuses = [case.status for case in result.cases]
    assert statuses[:2] + statuses[4:] == ["OK", "RUNTIME_ERROR", "RUNTIME_ERROR", "OK"]
    assert statuses[2] in ("CPU_TIMEOUT", "WALL_TIMEOUT")  # a busy machine may bring either
    assert statuses[3] == "WALL_TIMEOUT"


async def test_answers_written_by_hand_win_nothing(other: RemoteSandbox) -> None:
    forged = (
        "import os\n"
        "frame = lambda k, b: k + len(b).to_bytes(4, 'big') + b\n"
        "with open('.posttrain/answers', 'ab') as file:\n"
        "    file.write(frame(b'D', b''))\n"
        "    file.write(b''.join(frame(b'V', bytes([0, 0, 0, i]) + b'true') for i in range(9)))\n"
        "os._exit(0)\n"
    )
    cases = tuple(Case(at * at + 1, "f", (at,)) for at in range(3, 6))
    result = await other.test(Program("python", forged), cases)
    assert "OK" not in [case.status for case in result.cases]
    assert result.status != "OK"


async def test_what_the_common_form_cannot_say_is_an_error_not_a_wrong_run(other: RemoteSandbox) -> None:
    with pytest.raises(InputError, match="arguments of a python program"):
        await other.run(Program("python", "import sys; print(sys.argv)", arguments=("a",)))
    with pytest.raises(InputError, match="not UTF-8"):
        await other.run(Program("python", "print(1)", stdin=b"\xff"))
    with pytest.raises(InputError, match="/sessions"):
        await other.session({})


async def test_a_source_that_is_no_text_is_refused_here(own: RemoteSandbox) -> None:
    result = await own.run(Program("python", "x = '\ud800'"))
    assert result.status == "COMPILE_ERROR"
