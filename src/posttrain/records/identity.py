"""What makes two runs the same run: which settings may change on resume and which may not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.errors import RunFolderError

IDENTITY_KEYS = ("model", "seed", "domains", "algorithm", "batch")
"""Top-level keys, or dotted paths, of a resolved config that a resumed run must share with its beginning."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that differs; `old` and `new` are JSON text, or 'absent'."""

    key: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.key}: {self.old} → {self.new}"


@dataclass(frozen=True, slots=True)
class Difference:
    """How two configs differ: in what makes the run, and in the rest."""

    identity: tuple[Change, ...]
    other: tuple[Change, ...]


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], identity_keys: Sequence[str] = IDENTITY_KEYS
) -> Difference:
    """Return the settings in which two resolved configs differ, by dotted path."""
    before, after = dict(_flatten(_plain(old))), dict(_flatten(_plain(new)))
    changes = [
        Change(key, _text(before.get(key, _ABSENT)), _text(after.get(key, _ABSENT)))
        for key in sorted({*before, *after})
    ]
    changes = [change for change in changes if change.old != change.new]

    def is_identity(change: Change) -> bool:
        return any(change.key == key or change.key.startswith(f"{key}.") for key in identity_keys)

    return Difference(
        tuple(change for change in changes if is_identity(change)),
        tuple(change for change in changes if not is_identity(change)),
    )


def check_resume(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    allow_changed: bool = False,
    identity_keys: Sequence[str] = IDENTITY_KEYS,
) -> list[str]:
    """Return one line for each changed setting, fit to print and to record.

    Raises RunFolderError, naming keys and values, if an identity key differs and `allow_changed` is False.
    """
    difference = compare(old, new, identity_keys)
    if difference.identity and not allow_changed:
        listed = "; ".join(str(change) for change in difference.identity)
        raise RunFolderError(
            f"the run folder belongs to another config ({listed}). "
            "Resume with the run's own values, start a new run folder, or pass --allow-changed."
        )
    lines = [f"changed: {change}" for change in difference.other]
    if difference.identity:
        lines += [f"changed identity: {change}" for change in difference.identity]
        lines.append(
            "resume is state-exact only: the saved state is restored, but the run no longer equals one that "
            "was never interrupted, nor can its records replay it"
        )
    return lines


def _plain(config: Mapping[str, Any]) -> Any:
    """Bring a config into the form that config.json gives back: no tuples."""
    return json.loads(json.dumps(config))


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items: Iterator[tuple[str, Any]]
    if isinstance(value, dict) and value:
        items = iter(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = ((str(i), item) for i, item in enumerate(value))
    else:
        yield path, value
        return
    for key, item in items:
        yield from _flatten(item, f"{path}.{key}" if path else key)


def _text(value: Any) -> str:
    return "absent" if value is _ABSENT else json.dumps(value)
