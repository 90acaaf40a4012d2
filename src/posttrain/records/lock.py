"""A lock that only one writer of a folder can hold; the system frees it when the writer dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path
from typing import final

from posttrain.errors import RunFolderError


@final
class FolderLock:
    """Hold `folder`/lock until `release`; raise RunFolderError if another writer holds it."""

    __slots__ = ("__weakref__", "_descriptor")

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise RunFolderError(
                f"{folder}: another trainer ({owner or 'unknown'}) is writing here. "
                "Wait for it or stop it, or choose another run folder."
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise RunFolderError(
                f"{folder}: cannot be locked ({error.strerror}). Choose a folder on a file system with locks."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
        self._descriptor: int | None = descriptor
        _drop_in_forks(self)

    def release(self) -> None:
        """Let other writers in; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _drop_in_forks(lock: FolderLock) -> None:
    """Close the descriptor in forked children: one that outlives the trainer must not keep its lock."""
    reference = weakref.ref(lock)

    def drop() -> None:
        held = reference()
        if held is not None:
            with contextlib.suppress(OSError):
                held.release()

    os.register_at_fork(after_in_child=drop)
