"""What goes over the wire: SandboxFusion's request and answer of `/run_code`, and what they cannot say.

The form knows texts only, one time limit and no kinds of failure. So each request also carries the key
`posttrain` with the program as it is; a server that knows it answers in kind (`Exact`), any other ignores it.
"""

from __future__ import annotations

import shlex
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Base64Bytes, TypeAdapter

from posttrain.protocols import Limits, Program, RunResult, Status

LANGUAGES = {"python": "python", "shell": "bash", "c++": "cpp", "command": "bash"}
"""Our languages → SandboxFusion's; a command is run by its shell."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program is beyond the common form; `source` is the request's code."""

    language: str
    limits: Limits
    arguments: tuple[str, ...] = ()
    stdin: Base64Bytes = b""


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a request; files are in base 64."""

    code: str
    language: str
    stdin: str | None = None
    compile_timeout: float = 10.0
    run_timeout: float = 10.0
    memory_limit_MB: int = -1
    files: Mapping[str, str | None] = field(default_factory=dict)
    fetch_files: list[str] = field(default_factory=list)
    posttrain: Asked | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """How compiling or running ended."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


@dataclass(frozen=True, slots=True)
class Exact:
    """How a run ended, without loss."""

    status: Status
    exit_code: int | None
    stdout: Base64Bytes
    stderr: Base64Bytes
    truncated: bool
    cpu_seconds: float
    wall_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Response:
    """The body of an answer; files are in base 64."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str = ""
    compile_result: Command | None = None
    run_result: Command | None = None
    files: dict[str, str] = field(default_factory=dict)
    posttrain: Exact | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """The body of a request for a session."""

    files: dict[str, str]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Opened:
    """The name of a session."""

    session: str


REQUEST, RESPONSE = TypeAdapter(Request), TypeAdapter(Response)
OPENING, OPENED = TypeAdapter(Opening), TypeAdapter(Opened)


def request(program: Program, limits: Limits) -> Request:
    """Return the request that asks for a run; a source that is no text must have been refused before."""
    code = program.source
    if program.language == "command":
        code = f"exec {shlex.join((*shlex.split(program.source), *program.arguments))}"
    return Request(
        code=code,
        language=LANGUAGES.get(program.language, program.language),
        stdin=program.stdin.decode(errors="replace") if program.stdin else None,
        compile_timeout=limits.wall_seconds,
        run_timeout=limits.wall_seconds,
        memory_limit_MB=max(1, limits.memory_bytes // 2**20),
        files=to_text(program.files),
        fetch_files=list(program.collect),
        posttrain=Asked(program.language, limits, program.arguments, program.stdin),
    )


def lost(program: Program) -> str:
    """Say what of a program the common form cannot express; '' where nothing is lost."""
    if program.language not in LANGUAGES:
        return f"language {program.language!r}"
    if program.arguments and program.language != "command":
        return f"arguments of a {program.language} program"
    try:
        program.stdin.decode()
    except UnicodeDecodeError:
        return "input that is not UTF-8"
    return ""


def to_program(asked: Request) -> tuple[Program, Limits]:
    """Return the program that a request asks for, and its limits; ValueError where a file is not base 64."""
    files = to_bytes({name: content for name, content in asked.files.items() if content is not None})
    own = asked.posttrain
    if own is not None:
        source = "" if own.language == "command" else asked.code
        words = tuple(shlex.split(asked.code)[1:]) if own.language == "command" else own.arguments
        return Program(own.language, source, words, files, own.stdin, tuple(asked.fetch_files)), own.limits
    ours = {theirs: name for name, theirs in LANGUAGES.items() if name != "command"}
    memory = asked.memory_limit_MB * 2**20 if asked.memory_limit_MB > 0 else Limits().memory_bytes
    limits = Limits(asked.run_timeout, asked.run_timeout, memory, num_processes=16)
    stdin = (asked.stdin or "").encode(errors="surrogateescape")
    language = ours.get(asked.language, asked.language)
    return Program(language, asked.code, (), files, stdin, tuple(asked.fetch_files)), limits


def response(result: RunResult) -> Response:
    """Return the answer for a result."""
    run = Command(
        "TimeLimitExceeded" if result.status in ("CPU_TIMEOUT", "WALL_TIMEOUT") else "Finished",
        result.wall_seconds,
        result.exit_code,
        result.stdout.decode(errors="replace"),
        result.stderr.decode(errors="replace"),
    )
    exact = Exact(
        result.status, result.exit_code, result.stdout, result.stderr, result.truncated, result.cpu_seconds,
        result.wall_seconds, result.peak_memory_bytes,
    )  # fmt: skip
    if result.status == "INFRA":
        return Response("SandboxError", run.stderr or "the run has no verdict", posttrain=exact)
    compiling = result.status == "COMPILE_ERROR"
    return Response(
        "Success" if result.status == "OK" else "Failed",
        "",
        run if compiling else None,
        None if compiling else run,
        to_text(result.files),
        exact,
    )


def to_result(answer: Response, limits: Limits) -> RunResult:
    """Return the result that an answer tells of; INFRA where the server could not run the program.

    From a server that only knows the common form, CPU time and memory are unknown (0), a time-out is one by
    wall time, and output beyond the limit is cut here.
    """
    files = to_bytes(answer.files)
    if answer.posttrain is not None:
        own = answer.posttrain
        return RunResult(
            own.status, own.exit_code, own.stdout, own.stderr, own.truncated, own.cpu_seconds,
            own.wall_seconds, own.peak_memory_bytes, files,
        )  # fmt: skip
    told = answer.run_result or answer.compile_result
    compiled_only = answer.run_result is None
    if answer.status == "SandboxError" or told is None or told.status == "Error":
        return no_verdict(answer.message or "the server gives no reason")
    if compiled_only and told.status == "Finished" and told.return_code == 0:
        return no_verdict("the server compiled the program and did not run it")
    status = _status(told, compiled_only)
    stdout, stderr = (text.encode(errors="replace") for text in (told.stdout or "", told.stderr or ""))
    cut = len(stdout) > limits.output_bytes or len(stderr) > limits.output_bytes
    code = told.return_code
    return RunResult(
        "OUTPUT" if cut and status == "OK" else status,
        code if code is None or code >= 0 else None,
        stdout[: limits.output_bytes],
        stderr[: limits.output_bytes],
        cut,
        0.0,
        told.execution_time or 0.0,
        0,
        files,
    )


def _status(told: Command, compiling: bool) -> Status:
    if compiling:
        return "COMPILE_ERROR"
    if told.status == "TimeLimitExceeded":
        return "WALL_TIMEOUT"
    return "OK" if told.return_code == 0 else "RUNTIME_ERROR"


def no_verdict(why: str) -> RunResult:
    """Return the result of a run that nobody judged; its error output says why."""
    return RunResult("INFRA", None, b"", f"sandbox: {why}\n".encode(errors="replace"), False, 0.0, 0.0, 0)


def to_text(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return files with their contents in base 64."""
    return {name: b64encode(content).decode() for name, content in files.items()}


def to_bytes(files: dict[str, str]) -> dict[str, bytes]:
    """Return files with their contents; ValueError where one is not base 64."""
    return {name: b64decode(content, validate=True) for name, content in files.items()}
