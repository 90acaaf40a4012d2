"""A small server that lends a sandbox over HTTP: SandboxFusion's `/run_code`, exact answers, and sessions.

It is meant for a private network: it runs what it is sent, so give it a token and let only trainers reach it.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields
from typing import final

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from posttrain.protocols import Limits, Sandbox, Session
from posttrain.sandbox.remote import wire

MOST = Limits(
    cpu_seconds=120, wall_seconds=300, memory_bytes=4 * 2**30, output_bytes=2**26, disk_bytes=2**30,
    num_processes=256, num_files=4096,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serving:
    """Settings of a server.

    `token`, if any, must come with every request. More than `max_requests` at once are sent away (503), to
    come back later, as are bodies of more than `max_body_bytes` (413). Limits are cut down to `most`. A
    session that is not used for `idle_seconds` is closed.
    """

    token: str = ""
    max_requests: int = 256
    max_body_bytes: int = 256 * 2**20
    max_sessions: int = 64
    idle_seconds: float = 600.0
    most: Limits = MOST


def application(sandbox: Sandbox, serving: Serving = Serving()) -> Starlette:
    """Return the ASGI application that lends `sandbox`; it closes sessions, not the sandbox, when it ends."""
    lending = Lending(sandbox, serving)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await lending.close()

    return Starlette(
        routes=[
            Route("/v1/ping", lending.ping),
            Route("/run_code", lending.guarded(lending.run), methods=["POST"]),
            Route("/sessions", lending.guarded(lending.open), methods=["POST"]),
            Route("/sessions/{name}", lending.guarded(lending.shut), methods=["DELETE"]),
            Route("/sessions/{name}/run_code", lending.guarded(lending.run_in_session), methods=["POST"]),
        ],
        lifespan=lifespan,
    )


Handler = Callable[[Request, bytes], Awaitable[bytes]]


@final
class Lending:
    """The server's state: the sandbox, its open sessions, and how much is under way."""

    def __init__(self, sandbox: Sandbox, serving: Serving) -> None:
        self._sandbox, self._serving = sandbox, serving
        self._sessions: dict[str, tuple[Session, asyncio.TimerHandle]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._under_way = 0

    def guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return a handler that first checks the token, the load and the size of the body."""

        async def handle(request: Request) -> Response:
            given = request.headers.get("authorization", "").removeprefix("Bearer ")
            if self._serving.token and not hmac.compare_digest(given.encode(), self._serving.token.encode()):
                raise HTTPException(401, "a token is needed")
            if self._under_way >= self._serving.max_requests:
                raise HTTPException(503, f"{self._under_way} requests are under way", {"retry-after": "1"})
            self._under_way += 1
            try:
                body = await _body(request, self._serving.max_body_bytes)
                return Response(await handler(request, body), media_type="application/json")
            except ValidationError as error:
                raise HTTPException(422, error.json(include_input=False)) from error
            except ValueError as error:
                raise HTTPException(422, str(error)) from error
            finally:
                self._under_way -= 1

        return handle

    async def ping(self, request: Request) -> Response:
        """Say that the server is there."""
        return Response(b'"pong"', media_type="application/json")

    async def run(self, request: Request, body: bytes) -> bytes:
        """Run a program in a fresh box."""
        program, limits = wire.to_program(wire.REQUEST.validate_json(body))
        result = await self._sandbox.run(program, self._cut(limits))
        return wire.RESPONSE.dump_json(wire.response(result))

    async def open(self, request: Request, body: bytes) -> bytes:
        """Open a session."""
        opening = wire.OPENING.validate_json(body)
        if len(self._sessions) >= self._serving.max_sessions:
            raise HTTPException(503, f"{len(self._sessions)} sessions are open", {"retry-after": "5"})
        session = await self._sandbox.session(wire.to_bytes(opening.files), self._cut(opening.limits))
        name = secrets.token_urlsafe(24)
        self._sessions[name] = (session, self._expiry(name))
        return wire.OPENED.dump_json(wire.Opened(name))

    async def run_in_session(self, request: Request, body: bytes) -> bytes:
        """Run a program in a session."""
        name = request.path_params["name"]
        session, timer = self._find(name)
        timer.cancel()
        program, limits = wire.to_program(wire.REQUEST.validate_json(body))
        try:
            result = await session.run(program, self._cut(limits))
        finally:
            if name in self._sessions:
                self._sessions[name] = (session, self._expiry(name))
        return wire.RESPONSE.dump_json(wire.response(result))

    async def shut(self, request: Request, body: bytes) -> bytes:
        """Close a session."""
        self._find(request.path_params["name"])
        await self._give_up(request.path_params["name"])
        return b"{}"

    async def close(self) -> None:
        """Close all sessions."""
        for name in list(self._sessions):
            await self._give_up(name)

    def _find(self, name: str) -> tuple[Session, asyncio.TimerHandle]:
        if name not in self._sessions:
            raise HTTPException(404, "no such session: it was closed, or not used for too long")
        return self._sessions[name]

    def _expiry(self, name: str) -> asyncio.TimerHandle:
        def expire() -> None:
            task = asyncio.ensure_future(self._give_up(name))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

        return asyncio.get_running_loop().call_later(self._serving.idle_seconds, expire)

    async def _give_up(self, name: str) -> None:
        with suppress(KeyError):
            session, timer = self._sessions.pop(name)
            timer.cancel()
            await session.close()

    def _cut(self, limits: Limits) -> Limits:
        names = [field.name for field in fields(Limits)]
        return Limits(*(min(getattr(limits, name), getattr(self._serving.most, name)) for name in names))


async def _body(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise HTTPException(413, f"a body of more than {max_bytes} bytes")
    return bytes(body)
