"""Open local sandboxes for tests, at each level that this machine has."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from posttrain.sandbox import Local, LocalSandbox
from posttrain.sandbox.confine import Level
from posttrain.sandbox.probe import examine

LEVELS = ("landlock", "namespaces")


@contextmanager
def opened(settings: Local) -> Iterator[LocalSandbox]:
    """Open a sandbox, or skip the test where this machine lacks the level."""
    found = examine(Level[settings.min_level.upper()])
    if not found.available:
        pytest.skip(f"no level {settings.min_level} here: {found.reason}")
    sandbox = asyncio.run(settings.open())
    try:
        yield sandbox
    finally:
        asyncio.run(sandbox.close())


def children(process: int) -> list[int]:
    """List the children of a process's main thread."""
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def family(process: int) -> list[int]:
    """List all descendants of a process."""
    below = children(process)
    return below + [other for child in below for other in family(child)]


def is_alive(process: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
