"""How configuration errors speak: where a value stands, what was expected, what was meant."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from posttrain.errors import ConfigError

WORDS: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    Path: "a path",
    type(None): "false",
    dict: "a table",
    Mapping: "a table",
    Callable: "a function",
    **dict.fromkeys((tuple, list, set, frozenset, Sequence, Iterable), "a list"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: the file and the dotted key."""

    source: str
    key: str

    def at(self, name: str | int) -> Place:
        """Give the place of a key or list item within."""
        return Place(self.source, f"{self.key}.{name}" if self.key else str(name))

    def error(self, problem: str, hint: str = "") -> ConfigError:
        """Give an error that names this place."""
        return ConfigError(problem, key=self.key, source=self.source, hint=hint)


def describe(kind: Any) -> str:
    """Say a type in TOML's words, such as 'a list of 2: a number, text'."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return describe(inner[0])
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe(member) for member in inner))
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)}: " + ", ".join(describe(item) for item in inner)
    if origin is not None and inner and WORDS.get(origin) == "a list":
        return f"a list, each {describe(inner[0])}"
    name = str(getattr(kind, "__name__", kind))
    return WORDS.get(origin or kind, name)


def show(value: object) -> str:
    """Show a value with the word for its type, cut to a readable length."""
    text = repr(value)
    kind = describe(type(value)).removeprefix("a ").removeprefix("an ")
    cut = text if len(text) <= 60 else f"{text[:57]}..."
    return cut if isinstance(value, bool) else f"{cut} ({kind})"


def meant(name: str, known: Iterable[str], noun: str = "") -> str:
    """Give a hint with the nearest known spelling and, after `noun`, all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = f"{noun}: {', '.join(names) or 'none'}" if noun else ""
    return (hint + listed).strip()
