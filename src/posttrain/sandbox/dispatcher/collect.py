"""Files out of a box: regular files only, within caps, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

MAX_FILES = 256
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def collect(box: str, names: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Return the named files of a box; what is no plain file or too much is left out.

    Each part of a path is opened below the one before without following links. A file with a second name
    may be one from outside, so it is left out too.
    """
    found: dict[str, bytes] = {}
    for name in list(names)[:MAX_FILES]:
        left = max_bytes - sum(map(len, found.values()))
        with suppress(OSError):
            content = _read(box, name, left)
            if content is not None:
                found[name] = content
    return found


def _read(box: str, name: str, max_bytes: int) -> bytes | None:
    *folders, last = [part for part in name.split("/") if part not in ("", ".")]
    here = os.open(box, _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return _content(os.open(last, _FILE, dir_fd=here), max_bytes)
    finally:
        os.close(here)


def _content(descriptor: int, max_bytes: int) -> bytes | None:
    """Return a plain file's content and close it, whatever it is."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size > max_bytes:
        os.close(descriptor)  # `open` refuses a folder without closing it
        return None
    with open(descriptor, "rb") as file:
        return file.read(max_bytes)
