"""How far untrusted code is confined, and the rules a worker is prepared with; it travels as JSON."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, Literal, get_args

Profile = Literal["function", "command"]
"""function: one process with threads, no other program. command: processes and programs."""

LATEST_ABI = 7
"""The newest Landlock ABI that these rules know how to use."""


class Level(IntEnum):
    """How strong the walls are; each level has all that the ones below it have."""

    NONE = 0
    LIMITS = 1
    LANDLOCK = 2
    NAMESPACES = 3


@dataclass(frozen=True, slots=True)
class Rules:
    """What a worker's candidates may touch.

    `readable` are files and folders to read and execute, `writable` folders to write and execute in.
    `landlock_abi` masks the kernel's Landlock down to an older one. `uid` is the user (and group) to become
    when the worker runs as root; it must belong to this worker alone.
    """

    level: Level
    profile: Profile
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    landlock_abi: int | None = None
    uid: int | None = None

    def to_json(self) -> str:
        """Return the rules as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Read what `to_json` wrote; raise ValueError or KeyError on anything else."""
        data: dict[str, Any] = json.loads(text)
        if data["profile"] not in get_args(Profile):
            raise ValueError(f"profile {data['profile']!r}: expected one of {', '.join(get_args(Profile))}")
        return cls(
            level=Level(data["level"]),
            profile=data["profile"],
            readable=tuple(data["readable"]),
            writable=tuple(data["writable"]),
            landlock_abi=data["landlock_abi"],
            uid=data["uid"],
        )


SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that may be opened for reading and writing."""


def default_readable() -> tuple[str, ...]:
    """List what programs need to run: this interpreter and the system's programs and libraries.

    Home folders, the rest of /etc (accounts and secrets), /proc, /sys, /tmp and /var are left out. Of a
    virtual environment only the interpreter below it is listed: installed packages may hold a task's answers.
    """
    prefixes = {sys.base_prefix, sys.base_exec_prefix, sysconfig.get_path("stdlib")}
    wanted = [*SYSTEM_FOLDERS, *SYSTEM_FILES, *sorted(os.path.realpath(prefix) for prefix in prefixes)]
    found = [path for path in wanted if os.path.exists(path)]
    return tuple(path for path in dict.fromkeys(found) if not _inside_another(path, found))


def _inside_another(path: str, paths: list[str]) -> bool:
    return any(path != other and path.startswith(other.rstrip("/") + "/") for other in paths)
