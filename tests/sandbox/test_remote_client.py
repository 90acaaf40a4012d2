"""The HTTP sandbox against servers that fail, lie, die or are slow."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from posttrain.errors import InputError
from posttrain.protocols import Limits, Program
from posttrain.sandbox.remote.client import Remote, RemoteSandbox

from .serving import QUICK, serving

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
