"""What a candidate is sent: read by the candidate alone, once it is confined."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from posttrain.sandbox.worker.conversation import Conversation, save

PIPE_BYTES = 65_536
"""What a pipe holds by default, see pipe(7)."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A program or command line; the bytes of its files and input follow it."""

    source: str = ""
    arguments: tuple[str, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    stdin_size: int = 0

    def to_bytes(self) -> bytes:
        """Return its length and itself."""
        text = json.dumps(asdict(self)).encode()
        return len(text).to_bytes(4, "big") + text

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Payload:
        """Read what `to_bytes` wrote."""
        files = tuple((name, size) for name, size in data["files"])
        return cls(data["source"], tuple(data["arguments"]), files, data["stdin_size"])


def take_in(talk: Conversation) -> Payload:
    """Read a program, write its files into the box and make its input ready."""
    payload = Payload.from_json(talk.read_json())
    for path, size in payload.files:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with suppress(FileNotFoundError):  # in a session it may be anything by now: a link, a pipe
            os.unlink(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o700)
        save(talk, size, descriptor)
        os.close(descriptor)
    if payload.stdin_size:
        _provide_input(talk, payload.stdin_size)
    return payload


def _provide_input(talk: Conversation, size: int) -> None:
    """Make the next `size` bytes standard input: a pipe, or a nameless file."""
    if size <= PIPE_BYTES:
        source, sink = os.pipe()
        save(talk, size, sink)
        os.close(sink)
    else:
        name = f".{os.urandom(8).hex()}"
        source = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(name)
        save(talk, size, source)
        os.lseek(source, 0, os.SEEK_SET)
    os.dup2(source, 0)
    os.close(source)
