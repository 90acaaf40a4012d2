"""Tables with `use = "name"` → parts: looked up in a literal table or imported, then given their settings."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar, overload

from posttrain.config.typed import call, settings_of
from posttrain.config.wording import Place, meant, show

T = TypeVar("T")

EXTRAS: Mapping[str, str] = {
    "jsonschema": "tasks",
    "math_verify": "tasks",
    "obstore": "s3",
    "pyarrow": "tasks",
    "ray": "ray",
    "reasoning_gym": "tasks",
    "starlette": "serve",
    "uvicorn": "serve",
}
"""Which extra of this package brings an optional module."""


@overload
def construct(
    spec: Mapping[str, Any] | str, table: Mapping[str, str], *, source: str, key: str, expected: str
) -> object: ...


@overload
def construct(
    spec: Mapping[str, Any] | str, table: Mapping[str, str], *, source: str, key: str, expected: type[T]
) -> T: ...


def construct(
    spec: Mapping[str, Any] | str, table: Mapping[str, str], *, source: str, key: str, expected: str | type
) -> object:
    """Give the part that a table with `use` asks for; text alone means a table with nothing but `use`.

    `use = "grpo"` looks the short name up in `table` (name → "module:attribute"). `use = "my_pkg.sql:Sql"`
    imports; besides installed packages, the folder of the configuration file and the working directory are
    searched (both are appended to `sys.path`). `use = "generated:chain_sum"`, where `generated` is a short
    name, passes what stands after the colon as the first argument; short names win over modules.

    A class or function is called with the other keys as typed keyword arguments. A coroutine function and
    any other object is the part itself and takes no keys. `expected` is the class the part must be
    an instance of or the protocol whose members it must have, or only words for errors ("an algorithm").
    Raises ConfigError.
    """
    place = Place(str(source), key)
    noun = expected if isinstance(expected, str) else _a(expected.__name__)
    if isinstance(spec, str):
        spec = {"use": spec}
    if not isinstance(spec, Mapping):
        raise place.error(f"expected {noun}: a table with `use`, got {show(spec)}")
    name = spec.get("use")
    if name is None:
        raise place.at("use").error(f"is missing; expected the name of {noun}", _choices(table))
    if not isinstance(name, str):
        raise place.at("use").error(f"expected text, got {show(name)}", _choices(table))
    target, first = _find(name, table, place, noun)
    part = _made(target, first, {k: v for k, v in spec.items() if k != "use"}, place)
    lack = "" if isinstance(expected, str) else _lack(part, expected)
    if lack:
        raise place.at("use").error(f"{name!r} is not {noun}: {lack}")
    return part


def find(name: str, table: Mapping[str, str], *, source: str, key: str, expected: str) -> object:
    """Give the object that `use = name` refers to as it stands, nothing called. Raises ConfigError."""
    return _find(name, table, Place(str(source), key), expected)[0]


def _find(name: str, table: Mapping[str, str], place: Place, noun: str) -> tuple[Any, str | None]:
    """Give the object behind a name, and the first argument that came with a short name."""
    short, colon, rest = name.partition(":")
    if short in table:
        return _load(table[short], place.at("use"), ()), rest if colon else None
    if not colon:
        problem = f"{name!r} is not the name of {noun}"
        hint = f"{meant(name, table)} {_choices(table)}".strip()
        raise place.at("use").error(problem, hint)
    folder = str(Path(place.source).resolve().parent)
    return _load(name, place.at("use"), (folder, str(Path.cwd()))), None


def _load(reference: str, place: Place, folders: tuple[str, ...]) -> Any:
    # Appended, so that a user's file never hides an installed module.
    sys.path.extend(folder for folder in dict.fromkeys(folders) if folder not in sys.path)
    module_name, _, attribute = reference.partition(":")
    found: Any = _module(module_name, place, folders)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            known = (
                [each for each in vars(found) if not each.startswith("_")]
                if hasattr(found, "__dict__")
                else []
            )
            problem = f"{module_name!r} has no {attribute!r}"
            raise place.error(problem, meant(part, known, "It has")) from error
    return found


def _module(name: str, place: Place, folders: tuple[str, ...]) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            hint = " or put it in ".join(("Install the package that has it", *dict.fromkeys(folders)))
            raise place.error(f"there is no module {missing!r}", hint) from error
        raise place.error(
            f"{name!r} needs module {missing!r}, which is not installed", _how(missing)
        ) from error
    except Exception as error:
        raise place.error(f"importing {name!r} failed: {type(error).__name__}: {error}") from error


def _made(target: Any, first: str | None, settings: Mapping[str, Any], place: Place) -> object:
    made_by_call = inspect.isroutine(target) and not inspect.iscoroutinefunction(target)
    if not inspect.isclass(target) and not made_by_call:
        extra = next(iter(settings), "use")
        if settings or first is not None:
            raise place.at(extra).error("this part takes no settings", f"Remove {first or extra!r}")
        return target
    try:
        return call(target, _with_first(target, first, settings, place), place)
    except ModuleNotFoundError as error:
        problem = f"needs module {error.name!r}, which is not installed"
        raise place.error(problem, _how(error.name or "")) from error


def _lack(part: object, expected: type) -> str:
    """Say what keeps a part from being an `expected`, or nothing."""
    if not getattr(expected, "_is_protocol", False):
        return "" if isinstance(part, expected) else f"it is {_a(type(part).__name__)}"
    members = {name for cls in expected.__mro__ if cls is not Protocol for name in vars(cls)}
    wanted = sorted(name for name in members if not name.startswith("_") or name == "__call__")
    missing = [name for name in wanted if not hasattr(part, name)]
    return f"it has no {', '.join(missing)}" if missing else ""


def _with_first(
    target: Any, first: str | None, settings: Mapping[str, Any], place: Place
) -> Mapping[str, Any]:
    if first is None:
        return settings
    takes = settings_of(target, place).named
    if not takes or not first:
        raise place.at("use").error(f"nothing can stand after the colon, got {first!r}")
    if takes[0].name in settings:
        problem = f"is given twice: {first!r} after the colon of `use`, and {show(settings[takes[0].name])}"
        raise place.at(takes[0].name).error(problem, "Remove one")
    return {takes[0].name: first, **settings}


def _how(module: str) -> str:
    extra = EXTRAS.get(module.partition(".")[0])
    return f"Run: pip install 'posttrain[{extra}]'" if extra else f"Run: pip install {module}"


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"


def _choices(table: Mapping[str, str]) -> str:
    names = ", ".join(sorted(table))
    return (
        f"Known: {names}; or name your own as package.module:name"
        if names
        else "Name it as package.module:name"
    )
