"""Frames between a program and its dispatcher: a length, then JSON."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.protocols import Case, CaseResult, Limits, Program, RunResult, TestResult
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Answer, Call

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 1 << 30
Message = dict[str, Any]
"""A request has "id" and "do"; an answer has "id" and either "result" or "error"."""


def pack(message: Message) -> bytes:
    """Return the frame of a message; ValueError where it is too long."""
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(text)} bytes: {MAX_FRAME_BYTES} is the most")
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


class Unpacker:
    """Put frames together from the pieces that arrive."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, piece: bytes) -> list[Message]:
        """Return the messages that are complete with this piece; ValueError on a frame too long."""
        received = self._received
        received += piece
        found = []
        while len(received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES], "big")
            if end - LENGTH_BYTES > MAX_FRAME_BYTES:
                raise ValueError("a frame that is too long")
            if len(received) < end:
                break
            found.append(json.loads(received[LENGTH_BYTES:end]))
            del received[:end]
        return found


def from_bytes(content: bytes) -> str:
    """Return bytes as JSON text."""
    return b64encode(content).decode("ascii")


def to_bytes(text: str) -> bytes:
    """Return the bytes that `from_bytes` was given."""
    return b64decode(text)


def from_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return files as JSON."""
    return {name: from_bytes(content) for name, content in files.items()}


def to_files(data: Mapping[str, str]) -> dict[str, bytes]:
    """Read files from JSON."""
    return {name: to_bytes(content) for name, content in data.items()}


def from_program(program: Program) -> list[Any]:
    """Return a program as JSON."""
    return [
        program.language, program.source, list(program.arguments), from_files(program.files),
        from_bytes(program.stdin), list(program.collect),
    ]  # fmt: skip


def to_program(data: Sequence[Any]) -> Program:
    """Read a program from JSON."""
    language, source, arguments, files, stdin, collect = data
    return Program(language, source, tuple(arguments), to_files(files), to_bytes(stdin), tuple(collect))


def from_limits(limits: Limits) -> list[Any]:
    """Return limits as JSON."""
    return [getattr(limits, name) for name in Limits.__slots__]


def to_limits(data: Sequence[Any]) -> Limits:
    """Read limits from JSON."""
    return Limits(*data)


def from_run(result: RunResult) -> list[Any]:
    """Return a run's result as JSON."""
    return [
        result.status, result.exit_code, from_bytes(result.stdout), from_bytes(result.stderr),
        result.truncated, result.cpu_seconds, result.wall_seconds, result.peak_memory_bytes,
        from_files(result.files),
    ]  # fmt: skip


def to_run(data: Sequence[Any]) -> RunResult:
    """Read a run's result from JSON."""
    status, code, out, err, truncated, cpu, wall, memory, files = data
    return RunResult(
        status, code, to_bytes(out), to_bytes(err), truncated, cpu, wall, memory, to_files(files)
    )


def from_call(call: Call) -> bytes:
    """Return a call as a line of plain data, as the candidate reads it."""
    return plain.dumps((call.function, tuple(call.arguments), dict(call.keywords)), iterators=True)


def from_answer(answer: Answer) -> list[Any]:
    """Return an answer as JSON; its line stays unread."""
    line = None if answer.line is None else from_bytes(answer.line)
    return [
        answer.status,
        line,
        answer.detail,
        answer.cpu_seconds,
        answer.peak_memory_bytes,
        list(answer.raised),
    ]


def to_answer(data: Sequence[Any]) -> Answer:
    """Read an answer from JSON."""
    status, line, detail, cpu, memory, raised = data
    return Answer(status, None if line is None else to_bytes(line), detail, cpu, memory, tuple(raised))


def from_case(case: Case) -> list[Any]:
    """Return a case as JSON."""
    data = plain.dumps((case.expected, tuple(case.arguments), dict(case.keywords))).decode("ascii")
    return [data, case.function, from_bytes(case.stdin), case.comparator, case.hidden]


def to_case(data: Sequence[Any]) -> Case:
    """Read a case from JSON."""
    line, function, stdin, comparator, hidden = data
    expected, arguments, keywords = plain.loads(line.encode("ascii"))
    return Case(expected, function, arguments, keywords, to_bytes(stdin), comparator, hidden)


def from_test(result: TestResult) -> list[Any]:
    """Return a test's result as JSON."""
    cases = [[case.status, case.detail, case.cpu_seconds, case.peak_memory_bytes] for case in result.cases]
    return [result.status, cases, result.trust]


def to_test(data: Sequence[Any]) -> TestResult:
    """Read a test's result from JSON."""
    status, cases, trust = data
    return TestResult(status, tuple(CaseResult(*case) for case in cases), trust)
