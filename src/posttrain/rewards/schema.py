"""Reading JSON out of an answer, strictly, and checking it against a JSON schema.

Apart from domains, because every verifier of structured answers needs the same refusals: what two
parsers could read in two ways, or what one parser could be made to choke on, is not JSON here.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posttrain.errors import ConfigError, InputError
from posttrain.types import JSON

MAX_CHARACTERS = 20_000
"""Longer answers are not looked at."""
MAX_DEPTH = 32
"""Deeper nesting is refused: what walks a value would recurse as deep."""
MAX_VIOLATIONS = 8

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL | re.IGNORECASE)
_DUPLICATE, _NUMBER = "duplicate key", "not a finite number"


@dataclass(frozen=True, slots=True)
class Reading:
    """The JSON value that a text is, or the `problem` that keeps it from being one."""

    value: JSON = None
    problem: str = ""

    @property
    def is_suspicious(self) -> bool:
        """Tell whether the text looks like an attack on a parser rather than a slip."""
        return self.problem in ("too long", "too deep", _DUPLICATE, _NUMBER)


class _Refused(ValueError):
    """JSON that some parsers would let pass."""


def read_json(text: str, *, fence: bool = False) -> Reading:
    """Return the JSON value that the whole text is; nothing may stand around it but white space.

    With `fence`, one Markdown code fence may stand around it. Refused are duplicate keys, NaN, infinities,
    numbers too large for a float, more than 20,000 characters and more than 32 levels.

    >>> read_json('{"a": 1, "a": 2}').problem
    'duplicate key'
    """
    if len(text) > MAX_CHARACTERS:
        return Reading(problem="too long")
    body = text.strip()
    if fence and (fenced := _FENCE.fullmatch(body)):
        body = fenced[1].strip()
    if not body:
        return Reading(problem="empty")
    try:
        value: JSON = json.loads(
            body, object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite
        )
    except _Refused as refused:
        return Reading(problem=str(refused))
    except RecursionError:
        return Reading(problem="too deep")
    except ValueError:  # also integers of more digits than Python converts
        return Reading(problem="not JSON")
    return Reading(problem="too deep") if _depth(value) > MAX_DEPTH else Reading(value)


def violations(value: JSON, schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how a value breaks a JSON schema (draft 2020-12), at most eight ways; () if it is valid.

    Nothing is fetched: a `$ref` leads into the schema itself or raises InputError, as a malformed one does.
    """
    validator = _validator(json.dumps(schema))
    try:
        found = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except Exception as error:  # the library's own error for a reference that leads nowhere is not exported
        raise InputError(f"the JSON schema cannot be used: {error}. Mend it.") from error
    return tuple(f"{error.json_path}: {error.message}"[:200] for error in found[:MAX_VIOLATIONS])


@functools.lru_cache(maxsize=64)
def _validator(text: str) -> Any:
    try:
        import jsonschema
        from referencing import Registry
    except ImportError as error:
        hint = "Install it: pip install 'posttrain[tasks]'."
        raise ConfigError("checking against a schema needs the package jsonschema", hint=hint) from error
    schema = json.loads(text)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InputError(
            f"the JSON schema is malformed at {error.json_path}: {error.message}. Mend it."
        ) from error
    return jsonschema.Draft202012Validator(schema, registry=Registry())


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Refused(_DUPLICATE)
    return made


def _constant(name: str) -> JSON:
    raise _Refused(_NUMBER)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(_NUMBER)
    return number


def _depth(value: JSON) -> int:
    """Return how many containers stand in each other, without recursion."""
    deepest, left = 0, [(value, 0)]
    while left:
        item, depth = left.pop()
        if isinstance(item, dict | list):
            deepest = max(deepest, depth + 1)
            left.extend((each, depth + 1) for each in (item.values() if isinstance(item, dict) else item))
    return deepest
