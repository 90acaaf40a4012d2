"""Levels of a generated domain: the set's own curriculum as configurations from easy to hard.

Apart from the domain, because it speaks to reasoning-gym's registry and to users' spelling mistakes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from posttrain.domains.sets import REFUSED
from posttrain.errors import ConfigError

_REJECTIONS = (AssertionError, TypeError, ValueError)  # what configuration classes raise


def level_configs(name: str, overrides: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the set's configurations from easy to hard, without repeats and those it rejects itself.

    Where it rejects every level of its curriculum, its default configuration is the only level.
    `overrides` hold at every level. Raises ConfigError for an unknown set or setting, or if none is left.
    """
    _check_name(name)
    _check_keys(name, overrides)
    try:
        configs = list(_valid(_curriculum_configs(name), overrides))
        return tuple(configs) or (_with(factory().DATASETS[name][1](), overrides),)
    except _REJECTIONS as error:
        raise ConfigError(
            f"set {name!r} rejects these settings: {error}", key="use", hint=_settings_hint(name)
        ) from error


def _valid(configs: Iterable[Any], overrides: Mapping[str, Any]) -> Iterator[Any]:
    """Give each configuration with the overrides once, if the set takes it."""
    seen: list[Any] = []
    for config in configs:
        with contextlib.suppress(*_REJECTIONS):
            changed = _with(config, overrides)
            if changed not in seen:
                seen.append(changed)
                yield changed


def _with(config: Any, overrides: Mapping[str, Any]) -> Any:
    changed = dataclasses.replace(config, **overrides)
    # Two of the configuration classes have nothing to validate.
    getattr(changed, "validate", lambda: None)()
    return changed


def _curriculum_configs(name: str) -> Iterator[Any]:
    """Give the configuration of every level of the set's curriculum, easiest first; none without one."""
    module = factory()
    if name not in module.CURRICULA:
        return
    num_levels = max(len(a.levels) for a in module.create_curriculum(name).attributes.values())
    for level in range(num_levels):
        curriculum = module.create_curriculum(name)
        for attribute in curriculum.attributes.values():
            curriculum.set_attr_level(attribute.name, min(level, len(attribute.levels) - 1))
        yield curriculum.generate_configuration()


def _check_name(name: str) -> None:
    sets = factory().DATASETS
    if name in REFUSED:
        raise ConfigError(f"set {name!r} is not offered: {REFUSED[name]}", key="use")
    if name not in sets:
        near = difflib.get_close_matches(name, sets, 1)
        hint = f"Did you mean {near[0]!r}?" if near else "See posttrain.domains.sets.SOUND for the names."
        raise ConfigError(f"there is no set {name!r} in reasoning-gym", key="use", hint=hint)


def _check_keys(name: str, overrides: Mapping[str, Any]) -> None:
    known = _settings(name)
    for key in overrides:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else _settings_hint(name)
            raise ConfigError(f"set {name!r} has no such setting", key=key, hint=hint)


def _settings(name: str) -> list[str]:
    """Return the settings a user may give; seed and size belong to the run."""
    fields = dataclasses.fields(factory().DATASETS[name][1])
    return [field.name for field in fields if field.name not in ("seed", "size")]


def _settings_hint(name: str) -> str:
    return f"Its settings: {', '.join(_settings(name)) or 'none'}."


def factory() -> ModuleType:
    """Return reasoning-gym's registry, imported on first use since that takes two seconds."""
    try:
        module = importlib.import_module("reasoning_gym.factory")
    except ImportError as error:
        hint = "Install it: pip install 'posttrain[tasks]'."
        raise ConfigError("generated domains need the package reasoning-gym", key="use", hint=hint) from error
    return module
