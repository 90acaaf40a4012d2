"""Fencing: each writer of a run takes a higher number, so that one thought dead cannot write on.

A writer's claim also records which checkpoint it continues from. Checkpoints of earlier writers beyond that
one belong to a course of the run that was given up: readers pass them over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from posttrain.errors import RunFailed
from posttrain.protocols import Store
from posttrain.records.manifest import Manifest, read_manifest

_NAME = re.compile(r"fence/(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class Claim:
    """A writer's number and the step it continues from (-1: from scratch)."""

    fence: int
    step: int


def claim(store: Store, step: int) -> int:
    """Take the next fence number for a writer that continues from `step` (-1: from scratch)."""
    number = max(_numbers(store), default=0) + 1
    while True:
        try:
            store.put(f"fence/{number:06d}.json", json.dumps({"fence": number, "step": step}).encode())
            return number
        except FileExistsError:
            number += 1


def check(store: Store, fence: int) -> None:
    """Raise RunFailed if a later writer has taken over the run."""
    newest = max(_numbers(store), default=0)
    if newest > fence:
        raise RunFailed(
            f"another trainer took over this run (writer {newest}, this is writer {fence}). "
            "This one writes no more: follow the newer one, or start a run in another folder."
        )


def read_claims(store: Store) -> list[Claim]:
    """Return all claims; a torn one counts for its number only, as it says nothing of its step."""
    return [_read(store, number) for number in _numbers(store)]


class OtherCourseError(Exception):
    """A manifest is whole but not on this run's course; the text gives the reason."""


def read_on_course(store: Store, name: str, run_id: str) -> Manifest:
    """Return a manifest of this run; raise OtherCourseError if it is not, DamageError if it is not whole."""
    manifest = read_manifest(store, name)
    if manifest.run_id != run_id:
        raise OtherCourseError(f"it belongs to run {manifest.run_id}, not {run_id}")
    for claim in read_claims(store):
        if claim.fence > manifest.fence and claim.step < manifest.step:
            raise OtherCourseError(f"writer {claim.fence} continued from step {claim.step} before it")
    return manifest


def _numbers(store: Store) -> Iterator[int]:
    for name in store.list("fence/"):
        if found := _NAME.fullmatch(name):
            yield int(found.group(1))


def _read(store: Store, number: int) -> Claim:
    try:
        return Claim(number, int(json.loads(store.get(f"fence/{number:06d}.json"))["step"]))
    except (ValueError, KeyError, TypeError):
        return Claim(number, 2**63)
