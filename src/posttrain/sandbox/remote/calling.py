"""Calls of a program's functions where only whole programs can be run: a driver goes along and answers them.

All questions go into the box at once, so a candidate can read the later ones early; what is expected it
never sees. It could write the file of answers by hand, as it could any answer: what counts is whether they
are right.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib import resources

from posttrain.protocols import Limits, Program, RunResult, Status
from posttrain.sandbox import plain
from posttrain.sandbox.calls import Answer, Call
from posttrain.sandbox.dispatcher.told import failure
from posttrain.sandbox.remote import driver
from posttrain.sandbox.worker.conversation import DEFINED, FAILED, HEAD, INDEX_BYTES, RAISED, VALUE

Run = Callable[[Program, Limits], Awaitable[RunResult]]
Frame = tuple[bytes, bytes]

SENT = ("plain.py", "worker/__init__.py", "worker/conversation.py", "worker/payload.py", "worker/python.py")
"""The modules of posttrain.sandbox that the driver needs; they use the standard library only."""
ROOM_BYTES = 65_536
NOTES: dict[str, Status] = {driver.CPU_NOTE: "CPU_TIMEOUT", driver.WALL_NOTE: "WALL_TIMEOUT"}


async def call(run: Run, program: Program, calls: Sequence[Call], limits: Limits) -> tuple[Answer, ...]:
    """Call in fresh boxes until each call has its answer; those of one box share a process."""
    answers: list[Answer] = []
    while len(answers) < len(calls):
        answers += await _call_in_one_box(run, program, calls[len(answers) :], limits)
    return tuple(answers)


async def _call_in_one_box(run: Run, program: Program, calls: Sequence[Call], limits: Limits) -> list[Answer]:
    if program.language != "python":
        detail = f"functions of a {program.language} program cannot be called: use cases with stdin"
        return [Answer("INFRA", detail=detail)] * len(calls)
    lines = [_line(at, asked) for at, asked in enumerate(calls)]
    result = await run(_driven(program, lines, limits), _whole(limits, lines))
    frames = _frames(result.files.get(driver.ANSWERS, b""), limits.output_bytes + ROOM_BYTES)
    return _answers(frames, result, len(calls))


def _line(index: int, asked: Call) -> bytes:
    body = index.to_bytes(INDEX_BYTES, "big")
    body += plain.dumps((asked.function, tuple(asked.arguments), dict(asked.keywords)), iterators=True)
    return len(body).to_bytes(4, "big") + body


def _driven(program: Program, lines: Sequence[bytes], limits: Limits) -> Program:
    """Return the program that answers `lines` with the functions of `program`."""
    package = resources.files("posttrain.sandbox")
    folder = f"{driver.FOLDER}/posttrain"
    files = {f"{folder}/sandbox/{name}": package.joinpath(name).read_bytes() for name in SENT}
    files |= {f"{folder}/__init__.py": b"", f"{folder}/sandbox/__init__.py": b""}
    files |= {driver.CALLS: b"".join(lines), driver.PROGRAM: program.source.encode()}
    source = package.joinpath("remote/driver.py").read_text()
    return Program(
        "python",
        f"{source}\n\nmain({limits.cpu_seconds}, {limits.wall_seconds})\n",
        files={**program.files, **files},
        stdin=program.stdin,
        collect=(driver.ANSWERS, *NOTES),
    )


def _whole(limits: Limits, lines: Sequence[bytes]) -> Limits:
    """Return limits for all calls together, with room on the disk for questions and answers."""
    times = len(lines) + 1
    room = sum(map(len, lines)) + times * (limits.output_bytes + ROOM_BYTES) + 2**20
    return replace(
        limits,
        cpu_seconds=times * limits.cpu_seconds + 1,
        wall_seconds=times * limits.wall_seconds + 1,
        disk_bytes=limits.disk_bytes + room,
    )


def _frames(content: bytes, max_bytes: int) -> list[Frame]:
    """Take the answers' file apart; what is cut off or too long ends it."""
    frames = []
    while len(content) >= HEAD:
        size = int.from_bytes(content[1:HEAD], "big")
        if size > max_bytes or len(content) < HEAD + size:
            break
        frames.append((content[:1], content[HEAD : HEAD + size]))
        content = content[HEAD + size :]
    return frames


def _answers(frames: Sequence[Frame], result: RunResult, waiting: int) -> list[Answer]:
    """Return the answers that count, and one for the call during which the process ended."""
    if result.status == "INFRA":
        return [Answer("INFRA", detail=result.stderr.decode(errors="replace"))] * waiting
    answers: list[Answer] = []
    defined = False
    for kind, body in frames:
        if not defined and kind == FAILED:
            return [_raised(body)] * waiting
        if not defined and kind == DEFINED:
            defined = True
        elif defined and kind in (VALUE, RAISED) and _is_next(body, len(answers), waiting):
            value = body[INDEX_BYTES:]
            answers.append(Answer("OK", value) if kind == VALUE else _raised(value))
        else:
            return [
                *answers,
                *[Answer("TAMPERED", detail="an answer that nobody had asked for")]
                * (waiting - len(answers)),
            ]
    missing = waiting - len(answers)
    last = Answer(_ending(result), detail="the process ended without an answer")
    return [*answers, *[last] * (min(1, missing) if defined else missing)]


def _is_next(body: bytes, index: int, waiting: int) -> bool:
    return index < waiting and body[:INDEX_BYTES] == index.to_bytes(INDEX_BYTES, "big")


def _raised(body: bytes) -> Answer:
    status, names, text = failure(body)
    return Answer(status, detail=text, raised=names)


def _ending(result: RunResult) -> Status:
    """Return the status of the call during which the process ended: never OK."""
    noted = next((status for name, status in NOTES.items() if result.files.get(name)), None)
    return noted or ("RUNTIME_ERROR" if result.status == "OK" else result.status)
