"""What the sandbox's server lets in, and what it grants."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from posttrain.errors import InputError
from posttrain.protocols import Case, Limits, Program, RunResult, TestResult
from posttrain.sandbox.remote.client import Remote
from posttrain.sandbox.remote.server import Serving, application
from posttrain.sandbox.scripted import ScriptedSandbox, ran

from .serving import serving


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
