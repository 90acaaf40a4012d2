"""JSON values inside a turn of the policy, read strictly: what tool calls are made of.

Refused is what two parsers could read in two ways, or what would choke whoever walks the value later.
"""

from __future__ import annotations

import json
import math
from typing import Any

from posttrain.types import JSON, ToolCall

MAX_DEPTH = 16
_WHITE = " \t\r\n"


class Malformed(ValueError):
    """A text at a place where a call was begun, but not well-formed."""


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Malformed("a key stands twice")
    return made


def _constant(name: str) -> JSON:
    raise Malformed(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Malformed("a number is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite)


def value_at(text: str, place: int) -> tuple[JSON, int]:
    """Return the JSON value that begins at `place` (after white space) and where it ends.

    Raises Malformed for what is not JSON, is nested deeper than 16, or holds half a character.
    """
    try:
        value, end = _DECODER.raw_decode(text, past_white(text, place))
    except Malformed:
        raise
    except RecursionError:
        raise Malformed("nested too deep") from None
    except ValueError:  # also integers of more digits than Python converts
        raise Malformed("not valid JSON") from None
    _check(value)
    return value, end


def past_white(text: str, place: int) -> int:
    """Return the first place from `place` on that holds no white space."""
    while place < len(text) and text[place] in _WHITE:
        place += 1
    return place


def call_of(value: JSON) -> ToolCall:
    """Return the call that an object with a name and arguments describes, without an id.

    Arguments may be called `parameters`, may be left out, and may be JSON in a text, as in OpenAI's form.
    """
    if not isinstance(value, dict):
        raise Malformed('a call must be an object with "name" and "arguments"')
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise Malformed('"name" must be the name of a tool')
    if "arguments" in value and "parameters" in value:
        raise Malformed('give either "arguments" or "parameters"')
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments, end = value_at(written := arguments, 0)
        if past_white(written, end) != len(written):
            raise Malformed('"arguments" must be an object')
    if not isinstance(arguments, dict):
        raise Malformed('"arguments" must be an object')
    return ToolCall("", name, arguments)


def _check(value: JSON) -> None:
    """Raise Malformed for values that are nested too deep or hold text that no encoding can."""
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        item, depth = left.pop()
        if depth > MAX_DEPTH:
            raise Malformed("nested too deep")
        if isinstance(item, dict):
            left.extend((each, depth + 1) for pair in item.items() for each in pair)
        elif isinstance(item, list):
            left.extend((each, depth + 1) for each in item)
        elif isinstance(item, str) and any("\ud800" <= letter <= "\udfff" for letter in item):
            raise Malformed("it holds half a character")
