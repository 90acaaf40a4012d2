"""The HTTP sandbox against its own server, and against one that speaks SandboxFusion's form alone."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from posttrain.contracts.sandbox import check_sandbox
from posttrain.errors import InputError
from posttrain.protocols import Case, Limits, Program, RunResult, TestResult
from posttrain.sandbox.local import Local
from posttrain.sandbox.remote.client import Remote, RemoteSandbox
from posttrain.sandbox.remote.server import Serving, application
from posttrain.sandbox.scripted import ScriptedSandbox, ran

QUICK = Limits(cpu_seconds=1.0, wall_seconds=3.0, memory_bytes=256 * 2**20)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application on a free port and give its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


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


Handler = Callable[[Request], Any]


@contextlib.asynccontextmanager
async def client_of(handler: Handler, retries: int = 2) -> AsyncIterator[RemoteSandbox]:
    """Give a client of a server that first proves itself and then answers with `handler`."""
    seen = 0

    async def proving(request: Request) -> Response:
        nonlocal seen
        seen += 1
        if seen == 1:
            return JSONResponse(
                {"status": "Success", "run_result": {"status": "Finished", "return_code": 0, "stdout": "42"}}
            )
        return await handler(request)

    with serving(Starlette(routes=[Route("/run_code", proving, methods=["POST"])])) as url:
        sandbox = await Remote(url, retries=retries, margin_seconds=2.0).open()
        yield sandbox
        await sandbox.close()


def answers(*bodies: Response) -> tuple[Handler, list[int]]:
    """Return a handler that gives these answers in turn, the last for ever, and the count of its calls."""
    count = [0]

    async def handler(request: Request) -> Response:
        count[0] += 1
        return bodies[min(count[0], len(bodies)) - 1]

    return handler, count


RUN = {"status": "Finished", "return_code": 0, "stdout": "fine"}
GOOD = JSONResponse({"status": "Success", "run_result": RUN})
BROKEN = JSONResponse({"status": "SandboxError", "message": "no pod", "run_result": None})


@pytest.mark.parametrize(
    "trouble", [Response(status_code=503), Response(status_code=500), BROKEN, Response(b"<html>")]
)
async def test_trouble_that_passes_is_not_seen(trouble: Response) -> None:
    handler, count = answers(trouble, trouble, GOOD)
    async with client_of(handler) as sandbox:
        result = await sandbox.run(Program("python", ""), QUICK)
    assert (result.status, result.stdout, count) == ("OK", b"fine", [3])


@pytest.mark.parametrize(
    "trouble",
    [
        Response(status_code=503), BROKEN, Response(b"{"), Response(b'{"status": "Success"}'),
        JSONResponse({"status": "Success", "run_result": RUN | {"return_code": "zero"}}),
        JSONResponse({"status": "Success", "run_result": RUN | {"status": "Error"}}),
        JSONResponse({"status": "Success", "compile_result": RUN}),
        JSONResponse({"status": "Success", "run_result": RUN, "files": {"a": "!"}}),
    ],
)  # fmt: skip
async def test_trouble_that_stays_is_no_verdict(trouble: Response) -> None:
    handler, count = answers(trouble)
    async with client_of(handler) as sandbox:
        result = await sandbox.run(Program("python", ""), QUICK)
    assert (result.status, count) == ("INFRA", [3])
    assert result.stderr


async def test_a_server_that_is_slow_costs_no_more_than_the_deadline() -> None:
    is_over = threading.Event()

    async def hang(request: Request) -> Response:
        for _ in range(80):
            if is_over.is_set():
                break
            await asyncio.sleep(0.1)
        return GOOD

    async with client_of(hang, retries=0) as sandbox:
        started = asyncio.get_running_loop().time()
        result = await sandbox.run(Program("python", ""), Limits(wall_seconds=0.1))
        assert result.status == "INFRA"
        assert asyncio.get_running_loop().time() - started < 6
        is_over.set()


async def test_files_that_nobody_asked_for_do_not_come_in() -> None:
    handler, _ = answers(
        JSONResponse({"status": "Success", "run_result": RUN, "files": {"../../evil": "eA==", "out": "eA=="}})
    )
    async with client_of(handler) as sandbox:
        result = await sandbox.run(Program("python", "", collect=("out", "missing")), QUICK)
    assert result.files == {"out": b"x"}


async def test_a_server_that_dies_is_no_verdict() -> None:
    handler, _ = answers(GOOD)
    async with client_of(handler, retries=1) as sandbox:
        closed = sandbox
        assert (await sandbox.run(Program("python", ""), QUICK)).status == "OK"
        with serving(Starlette()) as url:
            pass
        gone = RemoteSandbox(Remote(url, retries=1), type(sandbox._connection)(url, "", 1))
        assert (await gone.run(Program("python", ""), QUICK)).status == "INFRA"
        await gone.close()
    await closed.close()


async def test_an_answer_that_is_far_too_long_is_the_programs_fault() -> None:
    huge = JSONResponse(
        {"status": "Success", "run_result": {"status": "Finished", "return_code": 0, "stdout": "x" * 2**23}}
    )
    handler, count = answers(huge)
    async with client_of(handler) as sandbox:
        result = await sandbox.run(Program("python", ""), Limits(output_bytes=1000, disk_bytes=1000))
    assert (result.status, count) == ("OUTPUT", [1])


async def test_nothing_at_the_address_is_an_error_that_says_so() -> None:
    with pytest.raises(InputError, match=r"no working sandbox at http://127\.0\.0\.1:9"):
        await Remote("http://127.0.0.1:9", retries=0).open()
    with pytest.raises(InputError, match="is no address"):
        await Remote("nonsense", retries=0).open()
    with pytest.raises(InputError, match="NO_SUCH_TOKEN"):
        await Remote("http://127.0.0.1:9", token_variable="NO_SUCH_TOKEN").open()


async def test_a_wrong_token_is_an_error_and_the_right_one_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = ScriptedSandbox([ran(b"42\n")])
    with serving(application(scripted, Serving(token="right"))) as url:
        monkeypatch.setenv("POOL_TOKEN", "wrong")
        with pytest.raises(InputError, match="401"):
            await Remote(url, token_variable="POOL_TOKEN").open()
        with pytest.raises(InputError, match="401"):
            await Remote(url).open()
        monkeypatch.setenv("POOL_TOKEN", "right")
        sandbox = await Remote(url, token_variable="POOL_TOKEN").open()
        await sandbox.close()
    assert len(scripted.programs) == 1


class Waiting:
    """A sandbox whose runs wait until they are let go; it keeps the limits it was given."""

    def __init__(self) -> None:
        self.go, self.limits = asyncio.Event(), list[Limits]()

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        self.limits.append(limits)
        await self.go.wait()
        return ran(b"42\n")

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        raise AssertionError("the server never tests")

    async def session(self, files: Any, limits: Limits = Limits()) -> Any:
        return self

    async def close(self) -> None:
        self.go.set()


def body(**more: Any) -> bytes:
    return json.dumps({"code": "", "language": "python"} | more).encode()


async def ask(app: Any, method: str, path: str, content: bytes = b"") -> httpx2.Response:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://server") as client:
        return await client.request(method, path, content=content)


async def test_the_server_sends_away_what_is_too_much() -> None:
    sandbox = Waiting()
    app = application(sandbox, Serving(max_requests=1, max_body_bytes=1000))
    first = asyncio.create_task(ask(app, "POST", "/run_code", body()))
    while not sandbox.limits:
        await asyncio.sleep(0)
    assert (await ask(app, "POST", "/run_code", body())).status_code == 503
    sandbox.go.set()
    assert (await first).json()["run_result"]["stdout"] == "42\n"
    assert (await ask(app, "POST", "/run_code", body(stdin="x" * 1000))).status_code == 413


async def test_the_server_names_what_is_wrong_in_a_request() -> None:
    app = application(ScriptedSandbox())
    for content in (
        b"",
        b"{",
        b"[]",
        b"{}",
        body(run_timeout="soon"),
        body(files={"a": "!"}),
        body(posttrain={"language": 1}),
    ):
        answer = await ask(app, "POST", "/run_code", content)
        assert answer.status_code == 422, content
        assert answer.text
    assert (await ask(app, "GET", "/run_code")).status_code == 405
    assert (await ask(app, "GET", "/v1/ping")).json() == "pong"


async def test_the_server_grants_no_more_than_it_is_willing_to() -> None:
    sandbox = Waiting()
    sandbox.go.set()
    app = application(sandbox, Serving(most=Limits(cpu_seconds=5, wall_seconds=6, memory_bytes=2**27)))
    await ask(app, "POST", "/run_code", body(run_timeout=1e9, memory_limit_MB=10**6))
    given = sandbox.limits[0]
    assert (given.cpu_seconds, given.wall_seconds, given.memory_bytes) == (5, 6, 2**27)


async def test_a_session_that_nobody_uses_is_closed() -> None:
    app = application(Waiting(), Serving(idle_seconds=0.05, max_sessions=1))
    opening = json.dumps({"files": {}, "limits": {}}).encode()
    name = (await ask(app, "POST", "/sessions", opening)).json()["session"]
    assert (await ask(app, "POST", "/sessions", opening)).status_code == 503
    await asyncio.sleep(0.3)
    assert (await ask(app, "POST", f"/sessions/{name}/run_code", body())).status_code == 404
    assert (await ask(app, "POST", "/sessions", opening)).status_code == 200
