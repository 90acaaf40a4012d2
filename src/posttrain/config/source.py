"""Reading a TOML file and putting dotted overrides in."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.errors import ConfigError

MAX_INTEGER = 2**53
"""Beyond this, integers no longer survive a passage through JSON readers."""


def read(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Give the TOML file's content with overrides such as `learner.lr=1e-4` put in.

    A file named *.json, such as a run folder's config.json, is read as JSON. An override's value is read as
    TOML, else as text; `domains.0.level=2` reaches into a list.
    Whether the keys exist is `build`'s business. Raises ConfigError.
    """
    try:
        data = _parse(path)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", source=path, hint="Check the path") from error
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML"
        raise ConfigError(f"is not valid {kind}: {error}", source=path) from error
    for override in overrides:
        _override(data, override)
    _check_finite(data, path, "")
    return data


def table(overrides: Sequence[str]) -> dict[str, Any]:
    """Give the table that overrides make by themselves. Raises ConfigError."""
    data: dict[str, Any] = {}
    for override in overrides:
        _override(data, override)
    return data


def _check_finite(value: Any, path: Path, key: str) -> None:
    """Refuse nan and inf, which TOML knows and no setting means; and integers no machine holds."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            _check_finite(item, path, f"{key}.{name}" if key else str(name))
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{value} is not a finite number", key=key, source=path, hint="Give a number")
    elif isinstance(value, int) and abs(value) >= MAX_INTEGER:
        raise ConfigError(f"{value} is too large", key=key, source=path, hint="Stay below 2**53")


def _parse(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return tomllib.loads(text)
    data = _without_null(json.loads(text))
    if not isinstance(data, dict):
        raise ConfigError(f"holds {type(data).__name__}, expected an object", source=path)
    return data


def _without_null(value: Any) -> Any:
    """Spell JSON's null as TOML has to: false switches an optional value off."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    return False if value is None else value


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    path = [name.strip() for name in key.split(".")]
    if not equals or not all(path):
        raise ConfigError(f"override {override!r} is not of the form key.path=value", hint="Example: seed=1")
    place: dict[str, Any] | list[Any] = data
    for depth, name in enumerate(path[:-1], start=1):
        if isinstance(place, dict):
            place.setdefault(name, {})
        inner = place[_index(place, name, override)] if isinstance(place, list) else place[name]
        if not isinstance(inner, dict | list):
            problem = f"override {override!r} reaches into a value, {inner!r}"
            raise ConfigError(problem, key=".".join(path[:depth]), hint="Only tables and lists have keys")
        place = inner
    if isinstance(place, list):
        place[_index(place, path[-1], override)] = _value(text.strip())
    else:
        place[path[-1]] = _value(text.strip())


def _index(items: list[Any], name: str, override: str) -> int:
    if not (name.isdecimal() and int(name) < len(items)):
        problem = f"override {override!r}: {name!r} is no item of a list of {len(items)}"
        raise ConfigError(problem, hint="Items are counted from 0")
    return int(name)


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could have brought further keys in.
    return parsed["value"] if len(parsed) == 1 else text
