"""What is `PKG:THING`? Find the object, tell which contract it is under, and make it with its settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from posttrain import config as toml
from posttrain.algorithms import ALGORITHMS
from posttrain.domains import DOMAINS
from posttrain.errors import ConfigError, InputError
from posttrain.types import Domain

Kind = Literal["config", "domain", "verifier", "algorithm", "engine", "sandbox"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SOURCE = "posttrain check"
NAMES: Mapping[str, str] = {**DOMAINS, **ALGORITHMS}
"""Short names that need no module."""

MEMBERS: Mapping[Kind, tuple[str, ...]] = {
    "algorithm": ("needs", "keeps", "advantages", "loss"),
    "engine": ("version", "generate", "load"),
    "sandbox": ("run", "test", "session", "close"),
}
"""What a part of each kind has, as `posttrain.protocols` asks for."""
VERIFIER = ("trajectory", "sandbox", "files")
EXPECTED = "a domain, verifier, algorithm, engine or sandbox, or a function or class that makes one"


def is_config(target: str) -> bool:
    """Tell whether the target names a configuration file."""
    return target.endswith((".toml", ".json")) or (":" not in target and Path(target).is_file())


def chosen_kind(name: str | None) -> Kind | None:
    """Return the kind that --kind asks for; raise InputError for one that is not known."""
    if name is None:
        return None
    for kind in KINDS:
        if kind == name:
            return kind
    near = toml.meant(name, KINDS, "Kinds")
    raise InputError(f"--kind: {name!r} is not a kind. {near}.")


def found(target: str) -> object:
    """Return the object that the target names, as it stands; raise ConfigError where there is none."""
    return toml.find(target, NAMES, source=SOURCE, key="", expected=EXPECTED)


def kind_of(thing: object) -> Kind | None:
    """Return what a made thing is, or None if it keeps no contract."""
    if isinstance(thing, Domain):
        return "domain"
    if inspect.isclass(thing):
        return None
    for kind, members in MEMBERS.items():
        if all(hasattr(thing, member) for member in members):
            return kind
    return "verifier" if is_verifier(thing) else None


def is_verifier(thing: object) -> bool:
    """Tell whether something can be called as a verifier is: with a trajectory, a sandbox and files."""
    if inspect.isclass(thing) or not callable(thing):
        return False
    parameters = list(inspect.signature(thing).parameters.values())
    needed = [
        p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    named = tuple(p.name for p in parameters[:3]) == VERIFIER
    return named or (len(needed) == 3 and all(p.kind != p.KEYWORD_ONLY for p in needed))


def wants_model(thing: object) -> str | None:
    """Return the name of the argument through which a class or function takes a loaded model, if any."""
    if not callable(thing):
        return None
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name == "model" or "LanguageModel" in str(parameter.annotation):
            return parameter.name
    return None


def makes_an_engine(thing: object) -> bool:
    """Tell whether a class has an engine's methods or a function says that it gives one."""
    if inspect.isclass(thing):
        return callable(getattr(thing, "generate", None)) and callable(getattr(thing, "load", None))
    if not inspect.isroutine(thing):
        return False
    given = inspect.signature(thing).return_annotation
    return "Engine" in (given if isinstance(given, str) else getattr(given, "__name__", ""))


def settings(overrides: Sequence[str]) -> dict[str, Any]:
    """Return `key=value` arguments as a table, each value read as TOML, else as text."""
    return toml.table(overrides)


def made(target: str, arguments: Mapping[str, Any]) -> object:
    """Return the part: a class or function is called with the arguments, anything else is the part."""
    spec = {"use": target, **arguments}
    try:
        return toml.construct(spec, NAMES, source=SOURCE, key="", expected=EXPECTED)
    except ConfigError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise InputError(
            f"{target} raised {type(error).__name__} when called with {dict(arguments)}: {error}. "
            "Give its arguments as key=value."
        ) from error


def unknown(target: str, thing: object) -> InputError:
    """Return the error for something that keeps no contract."""
    what = f"{type(thing).__name__} {thing!r}"[:200]
    lacking = {
        kind: [member for member in members if not hasattr(thing, member)]
        for kind, members in MEMBERS.items()
    }
    nearest = min(lacking, key=lambda kind: (len(lacking[kind]) / len(MEMBERS[kind]), kind))
    almost = len(lacking[nearest]) < len(MEMBERS[nearest])
    hint = f"To be an {nearest} it lacks {', '.join(lacking[nearest])}. " if almost else ""
    return InputError(
        f"{target} is {what}, expected {EXPECTED}. {hint}Name a part, or force one with --kind."
    )
