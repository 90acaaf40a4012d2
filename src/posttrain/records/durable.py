"""Files that survive a crash: every step that must reach the disk is fsynced here and nowhere else."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

TEMPORARY = ".tmp"
"""Suffix of a file that is still being written; whatever bears it may be removed."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def sync_folder(folder: Path) -> None:
    """Make the names inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create `folder` with its parents, each name durable in the one above."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def create_file(path: Path, blob: bytes) -> None:
    """Write a new file that is whole or absent; raise FileExistsError if the name is taken."""
    temporary = _write_temporary(path, blob)
    try:
        _claim_name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def replace_file(path: Path, blob: bytes) -> None:
    """Write a file that is wholly the new or wholly the old one."""
    temporary = _write_temporary(path, blob)
    try:
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sweep(folder: Path) -> None:
    """Remove what interrupted writes left anywhere in `folder`; only its one writer may call this."""
    for path in folder.rglob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def _write_temporary(path: Path, blob: bytes) -> Path:
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with temporary.open("xb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _claim_name(temporary: Path, path: Path) -> None:
    """Give the file its name, never replacing another; rename alone would replace it."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here: an empty file claims the name first. A crash in between leaves it
        # empty, which no reader takes for a valid blob or manifest.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        temporary.replace(path)
