"""Immutable blobs in a folder, by the rules of `protocols.Store`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import final

from posttrain.errors import RunFolderError
from posttrain.records import durable


@final
@dataclass(frozen=True, slots=True)
class FolderStore:
    """Keep blobs as files under `root`; names are relative paths with '/' between parts."""

    root: Path

    def put(self, name: str, blob: bytes) -> None:
        """Write a new blob; on return it survives a power loss.

        Raises FileExistsError if the name is taken: nothing is ever replaced.
        """
        durable.create_file(self._path(name), blob)

    def get(self, name: str) -> bytes:
        """Return a blob; raise FileNotFoundError if there is none of that name."""
        return self._path(name).read_bytes()

    def list(self, prefix: str) -> Iterable[str]:
        """Return the names that start with `prefix`, sorted; half-written files have no name."""
        files = (path for path in self.root.rglob("*") if path.suffix != durable.TEMPORARY and path.is_file())
        names = (path.relative_to(self.root).as_posix() for path in files)
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove a blob, and the folders it leaves empty; an absent one is no error."""
        path = self._path(name)
        if not path.parent.is_dir():
            return
        path.unlink(missing_ok=True)
        durable.sync_folder(path.parent)
        for folder in path.parents:
            if folder == self.root:
                return
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        # Names also come from manifests on disk: none may lead out of the folder.
        if not parts or name.startswith("/") or "\\" in name or ".." in parts:
            raise RunFolderError(f"{self.root}: {name!r} is not a blob's name. Names are relative paths.")
        return self.root.joinpath(*parts)
