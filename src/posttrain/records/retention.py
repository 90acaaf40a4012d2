"""Which checkpoints stay: old ones go only once enough newer ones have been verified."""

from __future__ import annotations

from collections.abc import Iterator

from posttrain.errors import InputError
from posttrain.protocols import Store
from posttrain.records.fence import OtherCourseError, read_on_course
from posttrain.records.manifest import DamageError, manifest_names, read_manifest, step_of


def prune(store: Store, run_id: str, keep: int = 2) -> list[str]:
    """Delete all but the `keep` newest verified checkpoints; return the deleted manifests' names.

    Deletes nothing until there are `keep` that verify; manifests go first. Also clears blobs that no manifest
    names, up to the newest step. Raises InputError for keep < 2: a damaged newest one must leave another.
    """
    if keep < 2:
        raise InputError(
            f"keep = {keep} checkpoints: at least 2 are kept, so that a damaged one can be replaced."
        )
    kept: list[str] = []
    for name in manifest_names(store):
        if len(kept) < keep and _verifies(store, name, run_id):
            kept.append(name)
    if len(kept) < keep:
        return []
    deleted = [name for name in manifest_names(store) if step_of(name) < step_of(kept[-1])]
    for name in deleted:
        store.delete(name)
    for name in list(_orphans(store, step_of(kept[0]))):
        store.delete(name)
    return deleted


def _verifies(store: Store, name: str, run_id: str) -> bool:
    try:
        for blob in read_on_course(store, name, run_id).blobs.values():
            blob.read(store)
    except (DamageError, OtherCourseError):
        return False
    return True


def _orphans(store: Store, newest: int) -> Iterator[str]:
    named: set[str] = set()
    unreadable: set[int] = set()
    for name in manifest_names(store):
        try:
            named.update(blob.name for blob in read_manifest(store, name).blobs.values())
        except DamageError:
            unreadable.add(step_of(name))
    for name in store.list("step-"):
        step = step_of(name) if "/" in name else newest + 1
        if step <= newest and name not in named and step not in unreadable:
            yield name
