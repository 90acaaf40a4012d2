"""Tables → typed dataclasses and keyword arguments, strictly."""

from __future__ import annotations

import inspect
import types
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from posttrain.config.wording import Place, describe, meant, show
from posttrain.errors import ConfigError

T = TypeVar("T")

LISTS = (tuple, list, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection)


@dataclass(frozen=True, slots=True)
class Setting:
    """One keyword argument of a part: its name, type, and whether it must be given."""

    name: str
    kind: Any
    required: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """What a part takes: named settings in order, and the type of any others (`**settings`), if it does.

    `places` are arguments annotated `Place`: no settings, they are told where the part's table stands.
    """

    named: tuple[Setting, ...]
    others: Setting | None = None
    places: tuple[str, ...] = ()


def build(cls: type[T], data: Mapping[str, Any], *, source: str, key: str = "") -> T:
    """Give a `cls` (a dataclass) made of a table; unknown keys and wrong types are errors.

    Integers pass as numbers, booleans never as integers; `false` switches an optional value off (None);
    pydantic's constraints in `Annotated` are checked. Raises ConfigError with file, key and value.
    """
    return call(cls, data, Place(str(source), key))


def call(target: Callable[..., T], data: Mapping[str, Any], place: Place) -> T:
    """Call a class or function with a table as its typed keyword arguments."""
    settings = settings_of(target, place)
    arguments = _arguments(settings, data, place) | dict.fromkeys(settings.places, place)
    try:
        return target(**arguments)
    except ConfigError as error:
        # What a part says of its own settings does not know where they stand.
        raise error if str(error).startswith(place.source) else place.error(str(error)) from error
    except (ValueError, AssertionError) as error:
        raise place.error(str(error) or f"{show(dict(data))} is not accepted") from error


def settings_of(target: Any, place: Place) -> Settings:
    """List what a dataclass, class or function takes as keyword arguments."""
    is_plain_class = isinstance(target, type) and not is_dataclass(target)
    called = inspect.getattr_static(target, "__init__") if is_plain_class else target
    try:
        kinds = get_type_hints(called, include_extras=True)
    except NameError as error:
        name = getattr(target, "__name__", target)
        raise place.error(f"an annotation of {name} is unknown at run time: {error}") from error
    if is_dataclass(target):
        made = [field for field in fields(target) if field.init]
        required = [field.default is MISSING and field.default_factory is MISSING for field in made]
        return Settings(tuple(Setting(f.name, kinds[f.name], r) for f, r in zip(made, required, strict=True)))
    parameters = inspect.signature(target).parameters.values()
    given = [Setting(p.name, kinds.get(p.name, Any), p.default is p.empty) for p in parameters]
    named = tuple(
        s for s, p in zip(given, parameters, strict=True) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )
    others = [s for s, p in zip(given, parameters, strict=True) if p.kind is p.VAR_KEYWORD]
    places = tuple(s.name for s in named if s.kind is Place)
    named = tuple(s for s in named if s.kind is not Place)
    return Settings(named, others[0] if others else None, places)


def _arguments(settings: Settings, data: Mapping[str, Any], place: Place) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise place.error(f"expected a table, got {show(data)}")
    known = {setting.name: setting for setting in settings.named}
    for name in data:
        if name not in known and settings.others is None:
            raise place.at(name).error("unknown key", meant(name, known, "Known keys"))
    for setting in settings.named:
        if setting.required and setting.name not in data:
            raise place.at(setting.name).error(f"is missing; expected {describe(setting.kind)}")
    kinds = {name: known.get(name, settings.others) for name in data}
    return {name: convert(kind.kind, data[name], place.at(name)) for name, kind in kinds.items() if kind}


def convert(kind: Any, value: Any, place: Place) -> Any:
    """Give `value` as `kind`, or raise a ConfigError with value, expected type and key."""
    origin, inner = get_origin(kind), get_args(kind)
    plain = origin or kind
    if kind is Any or kind is object or isinstance(kind, TypeVar):
        return value
    if origin is Annotated:
        return _constrained(kind, convert(inner[0], value, place), place)
    if origin is Literal:
        return _choice(kind, value, place)
    if origin in (Union, types.UnionType):
        return _either(kind, value, place)
    if plain in LISTS and isinstance(value, list | tuple):
        return _list(kind, value, place)
    if plain in (dict, abc.Mapping) and isinstance(value, Mapping):
        item = inner[1] if inner else Any
        return {str(name): convert(item, each, place.at(name)) for name, each in value.items()}
    if isinstance(plain, type) and is_dataclass(plain) and isinstance(value, Mapping):
        return call(plain, value, place)
    if plain is float and type(value) is int:
        return float(value)
    if plain is Path and isinstance(value, str):
        return Path(value)
    if not _is_a(value, plain):
        raise place.error(f"expected {describe(kind)}, got {show(value)}")
    return value


def _is_a(value: object, kind: Any) -> bool:
    if kind is abc.Callable:
        return callable(value)
    if kind is int:
        return type(value) is int
    # No value of a TOML file is behind a protocol, and isinstance refuses to ask.
    return isinstance(kind, type) and not getattr(kind, "_is_protocol", False) and isinstance(value, kind)


def _constrained(kind: Any, value: Any, place: Place) -> Any:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        problem = error.errors()[0]["msg"].replace("Input should", "must")
        raise place.error(f"{problem}, got {show(value)}") from error


def _choice(kind: Any, value: Any, place: Place) -> Any:
    choices = get_args(kind)
    if any(value == choice and type(value) is type(choice) for choice in choices):
        return value
    hint = meant(str(value), [str(choice) for choice in choices])
    raise place.error(f"expected {describe(kind)}, got {show(value)}", hint)


def _either(kind: Any, value: Any, place: Place) -> Any:
    members = get_args(kind)
    if type(None) in members and (value is None or (value is False and bool not in members)):
        return None
    members = tuple(member for member in members if member is not type(None))
    if len(members) == 1:
        return convert(members[0], value, place)
    exact = [member for member in members if type(value) is (get_origin(member) or member)]
    for member in (*exact, *members):
        try:
            return convert(member, value, place)
        except ConfigError:
            continue
    raise place.error(f"expected {describe(kind)}, got {show(value)}")


def _list(kind: Any, value: Sequence[Any], place: Place) -> Any:
    made, inner = get_origin(kind) or kind, get_args(kind)
    fixed = made is tuple and bool(inner) and inner[-1] is not Ellipsis
    if fixed and len(inner) != len(value):
        raise place.error(f"expected {describe(kind)}, got {show(value)}")
    kinds = inner if fixed else [inner[0] if inner else Any] * len(value)
    items = [
        convert(each, item, place.at(i)) for i, (each, item) in enumerate(zip(kinds, value, strict=True))
    ]
    return made(items) if made in (list, set, frozenset) else tuple(items)
