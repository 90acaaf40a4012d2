"""What a worker is told: once how to set itself up, then what to start; never a payload."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from posttrain.protocols import Limits
from posttrain.sandbox.confine import Rules

Mode = Literal["calls", "script", "command", "python-session", "shell-session"]
"""calls, script and python-session run Python in the forked worker itself; the others execute a program."""

MAX_MESSAGE_BYTES = 1 << 15
"""Messages between dispatcher and worker are small: payloads take another way."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How a worker prepares itself: rules, box, import folders, control groups.

    `keep_box`: the box is a session's, shared with its other workers, and not this one's to empty.
    """

    function: Rules
    command: Rules
    box: str
    import_folders: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    keep_box: bool = False

    def to_bytes(self) -> bytes:
        """Return the message that says so."""
        data = asdict(self) | {"function": self.function.to_json(), "command": self.command.to_json()}
        return json.dumps(data).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Setup:
        """Read what `to_bytes` wrote."""
        data = json.loads(message)
        return cls(
            Rules.from_json(data["function"]),
            Rules.from_json(data["command"]),
            data["box"],
            tuple(data["import_folders"]),
            tuple(data["groups"]),
            data["keep_box"],
        )


@dataclass(frozen=True, slots=True)
class Job:
    """One run: `timed` if the worker itself ends it in time; `keep` leaves the box.

    With the message come the candidate's descriptors: its conversation with the dispatcher and, unless the
    mode is calls, its standard output and error.
    """

    mode: Mode
    profile: Literal["function", "command"]
    limits: Limits
    timed: bool = True
    keep: bool = False

    def to_bytes(self) -> bytes:
        """Return the message that says so."""
        limits = self.limits
        numbers = [
            limits.cpu_seconds, limits.wall_seconds, limits.memory_bytes, limits.output_bytes,
            limits.disk_bytes, limits.num_processes, limits.num_files,
        ]  # fmt: skip
        return json.dumps([self.mode, self.profile, numbers, self.timed, self.keep]).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Job:
        """Read what `to_bytes` wrote."""
        mode, profile, numbers, timed, keep = json.loads(message)
        return cls(mode, profile, Limits(*numbers), timed, keep)


Reason = Literal["", "CPU_TIMEOUT", "WALL_TIMEOUT", "MEMORY", "DISK", "PROCESSES", "KILLED"]
"""Why the worker ended a run, '' where it ended by itself; KILLED: the dispatcher asked for it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, as the kernel tells it: exit code or signal.

    `waited_seconds` is how long it was ready to run and got no processor.
    """

    code: int | None
    signal: int | None
    reason: Reason
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    waited_seconds: float

    def to_bytes(self) -> bytes:
        """Return the message that says so."""
        numbers = [self.cpu_seconds, self.wall_seconds, self.memory_bytes, self.waited_seconds]
        return json.dumps([self.code, self.signal, self.reason, *numbers]).encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Ended:
        """Read what `to_bytes` wrote."""
        return cls(*json.loads(message))


READY, KILL, USAGE, WIPE, WIPED = b"ready", b"kill", b"usage", b"wipe", b"wiped"
"""One-word messages: the worker is set up; end the run; say what it has used; empty the box; it is empty."""

NOT_READY_CODE = 113
"""Exit code of a candidate that could not be confined: no user code has run."""
