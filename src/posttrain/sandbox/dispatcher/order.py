"""What a worker is to run, made from a program; or why it cannot be run at all."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from posttrain.protocols import Limits, Program, RunResult, Status
from posttrain.sandbox.worker.job import Job, Mode
from posttrain.sandbox.worker.payload import Payload

LANGUAGES = ("python", "shell", "c", "c++", "command")
SHELL_PROCESSES = 16
"""What a shell may start where the limits say nothing (1): with a single process it could start nothing."""
MAX_SOURCE_BYTES = 16 * 2**20
MAX_INPUT_FILES = 2_000
MAX_COMMAND_BYTES = 100_000
"""A single argument of a program may be longer (MAX_ARG_STRLEN is 128 KiB), its arguments together hardly."""
SCRIPT = ".main.sh"


@dataclass(frozen=True, slots=True)
class Order:
    """One run for a worker: the job, and the payload that goes past the worker to its candidate."""

    mode: Mode
    profile: Literal["function", "command"]
    limits: Limits
    source: str = ""
    arguments: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    collect: tuple[str, ...] = ()
    keep: bool = False

    @property
    def job(self) -> Job:
        """Return what the worker is told; the box is kept where files will be collected from it."""
        timed = self.mode in ("script", "command")
        return Job(self.mode, self.profile, self.limits, timed, self.keep or bool(self.collect))

    def payload(self) -> bytes:
        """Return what the candidate reads."""
        sizes = tuple((name, len(content)) for name, content in self.files.items())
        head = Payload(self.source, self.arguments, sizes, len(self.stdin)).to_bytes()
        return b"".join((head, *self.files.values(), self.stdin)) if sizes or self.stdin else head


def order(program: Program, limits: Limits) -> Order:
    """Return the order for a program that needs no compiler."""
    files, arguments = program.files, program.arguments
    if program.language == "python":
        profile: Literal["function", "command"] = "function" if limits.num_processes == 1 else "command"
        made = Order("script", profile, limits, program.source, arguments, files)
    elif program.language == "shell":
        made = _shell(program, limits)
    else:
        words = (*shlex.split(program.source), *arguments)
        made = Order("command", "command", limits, "", words, files)
    return replace(made, stdin=program.stdin, collect=program.collect)


def _shell(program: Program, limits: Limits) -> Order:
    limits = with_processes(limits)
    if len(program.source.encode(errors="surrogateescape")) <= MAX_COMMAND_BYTES:
        words = (shell(), "-c", program.source, "main.sh", *program.arguments)
        return Order("command", "command", limits, "", words, program.files)
    files = {**program.files, SCRIPT: program.source.encode(errors="surrogateescape")}
    return Order("command", "command", limits, "", (shell(), SCRIPT, *program.arguments), files)


def with_processes(limits: Limits) -> Limits:
    """Return limits under which a program can start others."""
    return limits if limits.num_processes > 1 else replace(limits, num_processes=SHELL_PROCESSES)


def shell() -> str:
    """Return the shell of 'shell' programs: bash, or where it is missing the system's plain one."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def refusal(program: Program, limits: Limits) -> RunResult | None:
    """Return the result of a program that cannot be run as asked, without running it; or None."""
    impossible = _impossible(limits)
    if impossible:
        return refused("INFRA", impossible)
    if program.language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        return refused("INFRA", f"language {program.language!r} is not known here: choose one of {known}")
    if any("\0" in text for text in (*program.arguments, *program.files, *program.collect)):
        return refused("RUNTIME_ERROR", "a NUL character in an argument or file name: remove it")
    if program.language in ("shell", "command") and "\0" in program.source:
        return refused("RUNTIME_ERROR", "a NUL character in the source: remove it")
    if not _is_text(program.source if program.language in ("shell", "command") else "", *program.files):
        return refused("RUNTIME_ERROR", "a source or file name with lone surrogates is no text")
    if any(str(folder) in program.files for name in program.files for folder in PurePosixPath(name).parents):
        return refused("RUNTIME_ERROR", "a file that has the name of another file's folder: rename one")
    for name in (*program.files, *program.collect):
        if not _stays_inside(name):
            return refused("SECURITY", f"file name {name!r}: expected a relative path that stays in the box")
    if len(program.files) > MAX_INPUT_FILES:
        return refused(
            "DISK", f"{len(program.files)} files: {MAX_INPUT_FILES} is the most that a program brings"
        )
    size = sum(map(len, program.files.values())) + len(program.stdin)
    if size > limits.disk_bytes:
        return refused(
            "DISK", f"files and input of {size} bytes exceed limits.disk_bytes = {limits.disk_bytes}"
        )
    if len(program.source) > MAX_SOURCE_BYTES:
        return refused(
            "COMPILE_ERROR", f"a source of {len(program.source)} characters: {MAX_SOURCE_BYTES} is the most"
        )
    return _no_words(program)


def _is_text(*texts: str) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_words(program: Program) -> RunResult | None:
    """Refuse a command that says nothing, or whose quotes do not match."""
    if program.language != "command":
        return None
    try:
        words = (*shlex.split(program.source), *program.arguments)
    except ValueError as error:
        return refused("RUNTIME_ERROR", f"command {program.source[:200]!r}: {error}")
    return None if words and words[0] else refused("RUNTIME_ERROR", "an empty command: name a program to run")


def refused(status: Status, why: str) -> RunResult:
    """Return the result of a run that was not begun; its error output says why."""
    return RunResult(
        status, None, b"", f"sandbox: {why}\n".encode(errors="backslashreplace"), False, 0.0, 0.0, 0
    )


MOST = Limits(
    cpu_seconds=86_400, wall_seconds=86_400, memory_bytes=2**50, output_bytes=2**28, disk_bytes=2**40,
    num_processes=4096, num_files=2**20,
)  # fmt: skip
LEAST = Limits(0.001, 0.001, 2**20, 0, 0, 1, 16)


def _impossible(limits: Limits) -> str:
    for name in Limits.__slots__:
        value, least, most = getattr(limits, name), getattr(LEAST, name), getattr(MOST, name)
        if not isinstance(value, int | float) or not least <= value <= most:
            return f"limits.{name} = {value!r}: expected a number from {least} to {most}"
    return ""


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    parts = path.parts
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    return (
        bool(parts)
        and not path.is_absolute()
        and ".." not in parts
        and max(sizes) <= 255
        and sum(sizes) <= 1024
    )
