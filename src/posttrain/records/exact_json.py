"""JSON that gives back what was put in: every float bit for bit, NaN and infinities included.

A float that JSON lacks becomes {"$float": "nan"}; an object that looks like such a mark is wrapped as
{"$object": {...}}. Tuples come back as lists. Anything else that JSON cannot hold is refused, never altered.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from posttrain.errors import InputError
from posttrain.types import JSON

_FLOAT, _OBJECT = "$float", "$object"


def dumps(value: Any) -> bytes:
    """Return one line of ASCII JSON, keys in the order given.

    Raises InputError with the path of the first value that JSON cannot hold.
    """
    return json.dumps(_encode(value, "value"), allow_nan=False, separators=(",", ":")).encode("ascii")


def loads(blob: bytes | str) -> Any:
    """Return what `dumps` was given; raise ValueError if `blob` is not JSON."""
    return _decode(json.loads(blob, parse_constant=_refuse))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _encode(value: Any, path: str) -> JSON:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {_FLOAT: repr(float(value))}
        case list() | tuple():
            return [_encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
        case Mapping():
            return _encode_object(value, path)
    raise InputError(
        f"{path} is a {type(value).__name__}, which JSON cannot hold. "
        "Use None, bool, int, float, str, lists and string-keyed mappings of these."
    )


def _encode_object(value: Mapping[Any, Any], path: str) -> JSON:
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{path} has the key {key!r}, a {type(key).__name__}. JSON keys are strings.")
    encoded = {key: _encode(item, f"{path}.{key}") for key, item in value.items()}
    return {_OBJECT: encoded} if _is_marked(encoded) else encoded


def _is_marked(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in (_FLOAT, _OBJECT)


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not _is_marked(value):
        return {key: _decode(item) for key, item in value.items()}
    if _FLOAT in value:
        return float(value[_FLOAT])
    return {key: _decode(item) for key, item in value[_OBJECT].items()}
