"""Typed objects → plain data and TOML: what `--dry-run` prints and a run folder keeps."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from posttrain.types import JSON


def to_plain(value: object) -> dict[str, JSON]:
    """Give a dataclass or mapping as a JSON object: what its fields hold, all the way down.

    Paths become text, sets sorted lists, functions and classes `module:name`. Raises TypeError for the rest.
    """
    plain = _plain(value)
    if not isinstance(plain, dict):
        raise TypeError(f"expected a dataclass or mapping, got {value!r}")
    return plain


def _plain(value: object) -> JSON:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Set):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, PurePath):
        return str(value)
    if callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}:{named.__qualname__}"
    raise TypeError(f"{type(value).__name__} has no plain form: {value!r}")


def to_toml(plain: Mapping[str, JSON]) -> str:
    """Give plain data as TOML that `read` and `build` take back; None is written as `false`."""
    import tomli_w

    return tomli_w.dumps({key: _without_none(value) for key, value in plain.items()})


def _without_none(value: JSON) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_none(item) for item in value]
    return False if value is None else value
