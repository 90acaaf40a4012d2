"""A sandbox that asks a server: SandboxFusion, or the server of this package."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar, final

from pydantic import ValidationError

from posttrain.errors import InputError
from posttrain.protocols import Case, Limits, Program, RunResult, TestResult
from posttrain.sandbox.calls import Answer, Call
from posttrain.sandbox.remote import calling, wire
from posttrain.sandbox.remote.connection import Connection, NoAnswer, repeated
from posttrain.sandbox.verdict.cases import judge

Returned = TypeVar("Returned")
MAX_SOURCE_BYTES = 16 * 2**20
ROOM_BYTES = 2**20
TRIAL = Program("python", "print(6 * 7)")


@dataclass(frozen=True, slots=True)
class Remote:
    """Settings of a remote sandbox; `open` connects to it.

    `url` is the server's address. `token_variable` names the environment variable with the token that the
    server asks for, if it does. At most `concurrency` requests are under way at once. A request without an
    answer is repeated `retries` times; it may take `margin_seconds` more than its program, for the queue and
    the way.
    """

    url: str
    token_variable: str = ""
    concurrency: int = 32
    retries: int = 3
    margin_seconds: float = 30.0

    async def open(self) -> RemoteSandbox:
        """Connect, and have one program run; raise InputError where no sandbox answers."""
        token = os.environ.get(self.token_variable, "") if self.token_variable else ""
        if self.token_variable and not token:
            raise InputError(
                f"environment variable {self.token_variable}, named by token_variable, is not set: set it"
            )
        sandbox = RemoteSandbox(self, Connection(self.url, token, self.concurrency))
        result = await sandbox.run(TRIAL)
        if result.status != "OK" or result.stdout.strip() != b"42":
            await sandbox.close()
            said = result.stderr.decode(errors="replace").strip()
            raise InputError(
                f"no working sandbox at {self.url}: {result.status} {said}. Start one there or correct url"
            )
        return sandbox


@final
class RemoteSandbox:
    """Run programs on a server; usable from any event loop and thread."""

    def __init__(self, settings: Remote, connection: Connection) -> None:
        self._settings, self._connection = settings, connection
        self._threads = ThreadPoolExecutor(settings.concurrency, "posttrain-remote")

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program in a fresh box of the server; INFRA where no repetition brought an answer."""
        return await self._ask("/run_code", program, limits, self._settings.retries)

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        """Call a program's functions in order; answers are aligned."""
        return await calling.call(self.run, program, calls, limits)

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Judge a program by cases; expected values stay here and never reach the server."""
        return await judge(self, program, cases, limits)

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> RemoteSession:
        """Open a session; SandboxFusion's form has none, so that takes the server of this package."""
        body = wire.OPENING.dump_json(wire.Opening(wire.to_text(files), limits))
        opened = await self._in_thread(
            lambda: self._connection.ask("POST", "/sessions", body, self._settings.margin_seconds, ROOM_BYTES)
        )
        return RemoteSession(self, wire.OPENED.validate_json(opened).session)

    async def close(self) -> None:
        """Close the connections; what the server still runs ends there."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._connection.close()

    async def run_in_session(self, name: str, program: Program, limits: Limits) -> RunResult:
        """Run in a session; never repeated, since it may have run already."""
        return await self._ask(f"/sessions/{name}/run_code", program, limits, 0)

    async def close_session(self, name: str) -> None:
        """Close a session, one that the server has given up already too."""
        try:
            await self._in_thread(
                lambda: self._connection.ask(
                    "DELETE", f"/sessions/{name}", b"", self._settings.margin_seconds, ROOM_BYTES
                )
            )
        except (NoAnswer, InputError):
            return

    async def _ask(self, path: str, program: Program, limits: Limits, retries: int) -> RunResult:
        refused = _refusal(program, limits)
        if refused is not None:
            return refused
        try:
            body = wire.REQUEST.dump_json(wire.request(program, limits))
        except ValueError as error:  # quotes that do not match
            return replace(
                wire.no_verdict(f"command {program.source[:200]!r}: {error}"), status="RUNTIME_ERROR"
            )
        seconds = 2 * limits.wall_seconds + self._settings.margin_seconds
        max_bytes = 16 * limits.output_bytes + 2 * limits.disk_bytes + ROOM_BYTES
        results: list[RunResult] = []

        def ask() -> bytes:
            answer = self._connection.ask("POST", path, body, seconds, max_bytes)
            results.append(self._understood(answer, program, limits))
            if results[-1].status == "INFRA":
                raise NoAnswer("no verdict")
            return answer

        try:
            await self._in_thread(lambda: repeated(ask, retries))
        except NoAnswer as failure:
            if failure.too_long:
                return replace(wire.no_verdict(failure.why), status="OUTPUT", truncated=True)
            return results[-1] if results else wire.no_verdict(failure.why)
        return results[-1]

    def _understood(self, body: bytes, program: Program, limits: Limits) -> RunResult:
        try:
            answer = wire.RESPONSE.validate_json(body)
            result = wire.to_result(answer, limits)
        except (ValidationError, ValueError) as error:
            return wire.no_verdict(f"{self._connection.url} answers in another form: {str(error)[:500]}")
        lost = wire.lost(program)
        if answer.posttrain is None and lost:
            raise InputError(
                f"the server at {self._connection.url} cannot be told {lost}: use posttrain's server"
            )
        asked = {name: result.files[name] for name in program.collect if name in result.files}
        return replace(result, files=asked)  # whoever writes them must not meet a path of the server's choice

    async def _in_thread(self, work: Callable[[], Returned]) -> Returned:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@final
class RemoteSession:
    """A session of a remote sandbox."""

    def __init__(self, sandbox: RemoteSandbox, name: str) -> None:
        self._sandbox, self._name = sandbox, name

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run in the session's box, after what ran before."""
        return await self._sandbox.run_in_session(self._name, program, limits)

    async def close(self) -> None:
        """Give the session up; closing twice is allowed."""
        await self._sandbox.close_session(self._name)


def _refusal(program: Program, limits: Limits) -> RunResult | None:
    """Return the result of what cannot be sent: the program's own fault where it is its source."""
    if not all(math.isfinite(seconds) for seconds in (limits.cpu_seconds, limits.wall_seconds)):
        return wire.no_verdict(f"impossible limits: {limits}")
    try:
        too_long = len(program.source.encode()) > MAX_SOURCE_BYTES
        "".join((*program.arguments, *program.files, *program.collect)).encode()
    except UnicodeEncodeError:
        why = "a source, argument or name with lone surrogates is no text"
        return replace(wire.no_verdict(why), status="COMPILE_ERROR")
    if too_long:
        why = f"a source of more than {MAX_SOURCE_BYTES} bytes"
        return replace(wire.no_verdict(why), status="COMPILE_ERROR")
    return None
