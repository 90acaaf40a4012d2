"""Checkpoints by a commit protocol: a crash at any moment leaves the old one or the new one, never a mix.

Blobs first (safetensors and JSON, never pickle), the manifest with their hashes last. Whoever reads verifies.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.errors import RunFailed, RunFolderError
from posttrain.protocols import Store
from posttrain.records import exact_json, fence
from posttrain.records.manifest import (
    BlobRecord,
    DamageError,
    Manifest,
    manifest_name,
    manifest_names,
    read_manifest,
)

if TYPE_CHECKING:
    from torch import Tensor

Report = Callable[[str], None]
"""Takes one line of text for the user."""

_WEIGHTS, _STATE = "weights.safetensors", "state.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint: everything saved at a step, as it was saved; tensors are on the CPU."""

    name: str
    manifest: Manifest
    tensors: Mapping[str, Tensor]
    state: dict[str, Any]

    @property
    def step(self) -> int:
        return self.manifest.step


def warn(line: str) -> None:
    """Give a line to Python's warnings."""
    warnings.warn(line, RuntimeWarning, stacklevel=2)


# --- writing -----------------------------------------------------------------------------------------


def save(
    store: Store,
    step: int,
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
    parent: str | None = None,
    environment: Mapping[str, Any] | None = None,
    *,
    run_id: str,
    writer: int,
) -> str:
    """Commit a checkpoint and return its manifest's name; on return it survives a power loss.

    `writer` is this writer's number from `fence.claim`. Saving the same content again changes nothing.
    Raises RunFailed if a later writer has taken over, RunFolderError if the step holds another checkpoint,
    InputError if `state` is not plain JSON.
    """
    # Both blobs are copies made before the first write: what trains on cannot change them.
    blobs = {_WEIGHTS: _pack(tensors), _STATE: exact_json.dumps(state)}
    fence.check(store, writer)
    name = manifest_name(step)
    if _holds(store, name, blobs, run_id, writer):
        return name
    folder = _next_attempt(store, step)
    records = {role: BlobRecord.of(f"{folder}/{role}", blob) for role, blob in blobs.items()}
    for role, blob in blobs.items():
        store.put(records[role].name, blob)
    manifest = Manifest(run_id, step, writer, parent, records, dict(environment or {}))
    encoded = manifest.encode()
    fence.check(store, writer)
    store.put(name, encoded)
    return name


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    from safetensors.torch import save as pack

    # safetensors refuses tensors that share storage; a checkpoint owns its values anyway.
    blob: bytes = pack(
        {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}
    )
    return blob


def _holds(store: Store, name: str, blobs: Mapping[str, bytes], run_id: str, writer: int) -> bool:
    """Tell whether `name` already is this checkpoint; clear away one that is void."""
    if name not in manifest_names(store):
        return False
    try:
        manifest = read_manifest(store, name)
    except DamageError:
        _quarantine(store, name)
        return False
    wanted = {role: BlobRecord.of("", blob).sha256 for role, blob in blobs.items()}
    if manifest.run_id == run_id and {r: b.sha256 for r, b in manifest.blobs.items()} == wanted:
        return True
    if manifest.run_id == run_id and manifest.fence < writer:
        _quarantine(store, name)
        return False
    raise RunFolderError(
        f"{name}: step {manifest.step} already holds a checkpoint of run {manifest.run_id}. "
        "Checkpoints are never replaced: continue with --resume, or choose another run folder."
    )


def _next_attempt(store: Store, step: int) -> str:
    prefix = manifest_name(step).removesuffix(".json") + "/attempt-"
    taken = [re.match(r"\d+", name.removeprefix(prefix)) for name in store.list(prefix)]
    return f"{prefix}{1 + max((int(number.group()) for number in taken if number), default=-1)}"


# --- reading -----------------------------------------------------------------------------------------


def latest(store: Store, run_id: str, report: Report = warn, *, quarantine: bool = True) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, or None if the run has never saved one.

    One that fails is reported in one line and set aside (without `quarantine`, for readers beside a trainer,
    only passed over). Raises RunFailed if there are manifests but none is valid: no run restarts unasked.
    """
    names = manifest_names(store)
    for name in names:
        try:
            manifest = fence.read_on_course(store, name, run_id)
            return _load(store, name, manifest)
        except DamageError as error:
            report(f"checkpoint {name} {'set aside' if quarantine else 'passed over'}: {error}")
            if quarantine:
                _quarantine(store, name)
        except fence.OtherCourseError as error:
            report(f"checkpoint {name} passed over: {error}")
    # What was set aside counts: the second resume after a total loss must fail like the first.
    lost = [*names, *store.list("quarantine/")]
    if lost:
        raise RunFailed(
            f"{len(lost)} checkpoint manifest(s) of run {run_id} but none is valid (newest: {lost[0]}). "
            "Restore the checkpoints folder from a copy, or start again in another run folder."
        )
    return None


def _load(store: Store, name: str, manifest: Manifest) -> Checkpoint:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        weights = manifest.blobs[_WEIGHTS].read(store)
        state = exact_json.loads(manifest.blobs[_STATE].read(store))
        return Checkpoint(name, manifest, load(weights), state)
    except (KeyError, ValueError, SafetensorError) as error:
        raise DamageError(f"its blobs cannot be read ({type(error).__name__}: {error})") from None


def _quarantine(store: Store, name: str) -> None:
    """Move a manifest out of the way; its blobs stay until they are pruned."""
    blob, number = store.get(name), 0
    while True:
        try:
            store.put(f"quarantine/{name.removesuffix('.json')}.{number}.json", blob)
            break
        except FileExistsError:
            number += 1
    store.delete(name)
