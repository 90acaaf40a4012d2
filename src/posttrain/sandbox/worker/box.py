"""A worker's box: the one folder its candidates write to, emptied after each run."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

BLOCK = 512
"""The unit of st_blocks, see stat(2)."""


def usage(path: str, max_entries: int) -> tuple[int, int]:
    """Return bytes on disk and entries below `path`, giving up beyond `max_entries`."""
    size = count = 0
    waiting = [path]
    while waiting and count <= max_entries:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                if count > max_entries:
                    break
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    size += found.st_blocks * BLOCK
                    if stat.S_ISDIR(found.st_mode):
                        waiting.append(entry.path)
    return size, count


def empty(path: str) -> None:
    """Make the box as new, however deep, locked or oddly named its content.

    Nothing runs in the box any more. The folder itself stays, since rules are bound to it.
    """
    os.chmod(path, 0o700)
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for attribute in os.listxattr(top):
            if attribute.startswith("user."):
                os.removexattr(top, attribute)
        _remove_all(top, os.listdir(top))
    finally:
        os.close(top)


def _remove_all(top: int, names: list[str]) -> None:
    """Remove `names` in `top`; folders below are moved up first: depth costs nothing."""
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if not _unlinked(name, top):
            waiting += _raise_folders(name, top)
            os.rmdir(name, dir_fd=top)


def _raise_folders(name: str, top: int) -> list[str]:
    """Empty a folder in `top`; return the new names of the folders that were in it."""
    raised = []
    os.chmod(name, 0o700, dir_fd=top)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for child in os.listdir(inner):
            if not _unlinked(child, inner):
                os.chmod(child, 0o700, dir_fd=inner)
                raised.append(f".{os.urandom(8).hex()}")
                os.rename(child, raised[-1], src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    return raised


def _unlinked(name: str, folder: int) -> bool:
    """Remove what is no folder; tell whether it was none."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        return False
    return True
