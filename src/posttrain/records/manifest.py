"""A checkpoint's manifest: the small file that makes its blobs a checkpoint, written last."""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from posttrain.errors import RunFolderError
from posttrain.protocols import Store
from posttrain.records import exact_json

FORMAT = 1
"""Version of the checkpoint's layout; see docs/reference/run-folder.md."""

_NAME = re.compile(r"step-(\d{6,})\.json")


class DamageError(Exception):
    """A manifest or blob is not what was written; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class BlobRecord:
    """What a manifest knows of one blob."""

    name: str
    size: int
    sha256: str

    @classmethod
    def of(cls, name: str, blob: bytes) -> BlobRecord:
        """Return the record of `blob` under `name`."""
        return cls(name, len(blob), hashlib.sha256(blob).hexdigest())

    def read(self, store: Store) -> bytes:
        """Return the blob, verified; raise DamageError if it is not the one that was written."""
        try:
            blob = store.get(self.name)
        except FileNotFoundError:
            raise DamageError(f"{self.name} is missing") from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise DamageError(f"{self.name} cannot be read ({error.strerror})") from None
        if len(blob) != self.size:
            raise DamageError(f"{self.name} has {len(blob)} bytes, not {self.size}")
        if hashlib.sha256(blob).hexdigest() != self.sha256:
            raise DamageError(f"{self.name} does not match its sha256")
        return blob


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which blobs make the checkpoint of a step, and where it comes from.

    `blobs` maps a role (weights, state) to its record; `parent` is the manifest's name of the checkpoint
    before; `fence` tells which writer wrote it.
    """

    run_id: str
    step: int
    fence: int
    parent: str | None
    blobs: Mapping[str, BlobRecord]
    environment: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def encode(self) -> bytes:
        """Return the manifest as JSON, with a checksum over all the rest."""
        body = exact_json.dumps(asdict(self))
        checksum = hashlib.sha256(body).hexdigest()
        return json.dumps({"checksum": checksum, "manifest": json.loads(body)}, indent=1).encode("ascii")


def manifest_name(step: int) -> str:
    """Return the name under which the manifest of `step` is stored."""
    return f"step-{step:06d}.json"


def manifest_names(store: Store) -> list[str]:
    """Return the names of all manifests, newest step first; file times play no part."""
    names = [name for name in store.list("step-") if _NAME.fullmatch(name)]
    return sorted(names, key=step_of, reverse=True)


def step_of(name: str) -> int:
    """Return the step of any name that begins with 'step-<number>'."""
    found = re.match(r"step-(\d+)", name)
    assert found, name
    return int(found.group(1))


def read_manifest(store: Store, name: str) -> Manifest:
    """Return a manifest that is whole and in its place; raise DamageError otherwise.

    Raises RunFolderError for a format that this version cannot read: that is no damage.
    """
    try:
        document = json.loads(store.get(name))
        body = document["manifest"]
        checksum = hashlib.sha256(json.dumps(body, separators=(",", ":")).encode("ascii")).hexdigest()
        if checksum != document["checksum"]:
            raise DamageError(f"{name} does not match its checksum")
        _check_format(body["format"], name)
        manifest = _parse(exact_json.loads(json.dumps(body)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamageError(f"{name} is not a manifest ({type(error).__name__}: {error})") from None
    except FileNotFoundError:
        raise DamageError(f"{name} is missing") from None
    if manifest_name(manifest.step) != name:
        raise DamageError(f"{name} is the manifest of step {manifest.step}")
    return manifest


def _check_format(version: Any, name: str) -> None:
    if version != FORMAT:
        raise RunFolderError(
            f"{name}: checkpoint format {version!r}, but this version of posttrain reads format {FORMAT}. "
            "Use the version of posttrain that wrote it."
        )


def _parse(body: Mapping[str, Any]) -> Manifest:
    blobs = {role: BlobRecord(**record) for role, record in body["blobs"].items()}
    return Manifest(**{**body, "blobs": blobs})
