"""A private view of the file system in which a worker's own users can reach what they are meant to read.

Root's Python may lie below a folder that only root can pass (/root). Started as root, a worker therefore
covers such folders, for itself alone, by empty ones in which nothing but the wanted paths appears.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import PurePath

from posttrain.sandbox.confine.kernel import syscall
from posttrain.sandbox.confine.syscalls import machine

_CLONE_NEWNS = 0x20000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18


def closed_folders(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the outermost folders that others cannot pass, each with the paths that lie below it."""
    found: dict[str, list[str]] = {}
    for path in map(os.path.realpath, paths):
        above = [str(parent) for parent in reversed(PurePath(path).parents)]
        closed = next((folder for folder in above if not _passable(folder)), None)
        if closed is not None and os.path.exists(path):
            found.setdefault(closed, []).append(path)
    return found


def reveal(paths: Iterable[str]) -> None:
    """Make `paths` reachable for every user of this process and its children.

    What else lies in a folder that had to be covered disappears from this process's sight. Raises
    PermissionError where that takes rights that this process lacks.
    """
    closed = closed_folders(paths)
    if not closed:
        return
    try:
        syscall("unshare", machine().numbers["unshare"], _CLONE_NEWNS)
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
        for folder, below in closed.items():
            _cover(folder, below)
    except OSError as error:
        places = ", ".join(closed)
        raise PermissionError(
            f"candidates run as a user that cannot pass {places} ({error.strerror}): allow it (chmod o+x), "
            "install Python elsewhere, or do not start as root"
        ) from error


def _passable(folder: str) -> bool:
    return bool(os.stat(folder).st_mode & stat.S_IXOTH)


def _cover(folder: str, paths: list[str]) -> None:
    """Put an empty folder over `folder` and bring `paths` back into it."""
    outermost = [path for path in dict.fromkeys(paths) if not any(_below(path, other) for other in paths)]
    with ExitStack() as opened:
        sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in outermost}
        for descriptor in sources.values():
            opened.callback(os.close, descriptor)
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m")
        for path, descriptor in sources.items():
            _bring(path, descriptor)


def _bring(path: str, descriptor: int) -> None:
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(path, mode=0o755)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC, None)


def _below(path: str, other: str) -> bool:
    return path != other and path.startswith(other + "/")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, data)]
    syscall("mount", machine().numbers["mount"], *words[:3], flags, words[3])
