"""Plain data as one line of JSON: what goes into a box and what comes back from it.

None, True, False, numbers of ordinary size, text and lists stand for themselves; everything else is an
object with one key, its kind. So `1`, `1.0` and `True` stay apart, as do lists and tuples, and every value
comes back as it went. `dumps` also runs beside candidates' code: it needs the standard library alone, takes
values of exactly the known types and calls no method that somebody else has written. `loads` reads lines
that nobody trusts.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any, NoReturn

MAX_DEPTH = 100
MAX_NODES = 2_000_000
MAX_BYTES = 64 * 2**20
MAX_INTEGER = 10**18
"""Larger integers are written in base 16: reading those takes time linear in their length."""
MAX_NUMBER_CHARACTERS = 32
MAX_COLLISIONS = 200_000
"""Pairs of keys with the same hash that one table may have; -1 and -2 share one, so some are innocent."""

_ENCODER = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":"))
_NAME = type.__dict__["__name__"]
_HEX = re.compile(r"-?0x[0-9a-f]+")
_SPECIAL_FLOATS = ("nan", "inf", "-inf")
_DICTS = (dict, OrderedDict, defaultdict, Counter)
"""Dictionaries of the standard library; all come back as plain ones."""
_ITERATORS: tuple[type, ...] = (
    GeneratorType, map, filter, zip, enumerate, reversed, type(reversed([])), type(iter([])), type(iter(())),
    type(iter({})), type(iter(set())), type({}.keys()), type({}.values()), type({}.items()),
    type(iter("")), type(iter("é")), type(iter(b"")), type(iter(range(0))), type(iter(int, 0)),
    *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
)  # fmt: skip


def dumps(value: object, *, iterators: bool = False) -> bytes:
    """Return plain data as one line of ASCII without its end.

    Raises TypeError for what is not plain data, also for instances of subclasses, and ValueError for what is
    nested too deeply (a list that contains itself, for instance) or too large. With `iterators`, generators
    and their like count as plain: they are run to their end and come back as iterators over a list.

    >>> dumps((1, 2.5, {"a": True}))
    b'{"tuple":[1,2.5,{"dict":[["a",true]]}]}'
    """
    line = _ENCODER.encode(_Packing(iterators).pack(value, MAX_DEPTH)).encode("ascii")
    if len(line) > MAX_BYTES:
        raise ValueError(f"plain data of {len(line)} bytes: {MAX_BYTES} is the most")
    return line


def loads(line: bytes) -> Any:
    """Return the value that a line stands for; ValueError, and nothing else, where it stands for none.

    >>> loads(b'{"tuple":[1,2.5,{"dict":[["a",true]]}]}')
    (1, 2.5, {'a': True})
    """
    if len(line) > MAX_BYTES:
        raise ValueError(f"a line of {len(line)} bytes: {MAX_BYTES} is the most")
    try:
        return _DECODER.decode(line.decode("ascii"))
    except (TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not plain data: {error}") from None


class _Packing:
    """Turn values into what JSON can hold, and count them."""

    def __init__(self, iterators: bool) -> None:
        self._left = MAX_NODES
        self._iterators = iterators

    def pack(self, value: Any, depth: int) -> Any:
        """Return the JSON of a value that may have `depth` more levels below it."""
        # By identity, since types can have an equality and a hash of their own.
        kind = type(value)
        if kind is str:
            return value if value.isascii() or _is_unicode(value) else {"str": _base64(_utf8(value))}
        if kind is int:
            return value if -MAX_INTEGER < value < MAX_INTEGER else {"int": hex(value)}
        if value is None or value is True or value is False:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is list:
            return self._pack_all(value, depth)
        if kind is tuple:
            return {"tuple": self._pack_all(value, depth)}
        if any(kind is known for known in _DICTS):
            return {"dict": [self._pack_all(pair, depth) for pair in value.items()]}
        return self._pack_rare(kind, value, depth)

    def _pack_rare(self, kind: type, value: Any, depth: int) -> Any:
        if kind is set:
            return {"set": self._pack_all(value, depth)}
        if kind is frozenset:
            return {"frozenset": self._pack_all(value, depth)}
        if kind is bytes:
            return {"bytes": _base64(value)}
        if kind is bytearray:
            return {"bytearray": _base64(value)}
        if kind is complex:
            return {"complex": [self.pack(value.real, depth), self.pack(value.imag, depth)]}
        if kind is range:
            return {"range": self._pack_all((value.start, value.stop, value.step), depth)}
        if self._iterators and any(kind is known for known in _ITERATORS):
            return {"iterator": self._pack_all(value, depth)}
        raise TypeError(f"{_NAME.__get__(kind)} is not plain data")

    def _pack_all(self, values: Iterable[Any], depth: int) -> list[Any]:
        if depth == 0:
            raise ValueError(f"plain data is nested more than {MAX_DEPTH} levels deep")
        packed = [self.pack(value, depth - 1) for value in itertools.islice(values, self._left + 1)]
        self._left -= len(packed)
        if self._left < 0:
            raise ValueError(f"plain data of more than {MAX_NODES} values")
        return packed


def _is_unicode(text: str) -> bool:
    """Tell whether text has no surrogates, two of which JSON would merge into one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _base64(content: bytes | bytearray) -> str:
    return base64.b64encode(content).decode("ascii")


# --- reading --------------------------------------------------------------------------------------


def _unpack(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) != 1 or pairs[0][0] not in _UNPACK:
        raise ValueError("not plain data: an object with other keys than one kind")
    kind, content = pairs[0]
    return _UNPACK[kind](content)


def _to_integer(content: Any) -> int:
    if type(content) is not str or not _HEX.fullmatch(content):
        raise ValueError("not plain data: a long integer that is none")
    return int(content, 16)


def _to_special_float(content: Any) -> float:
    if content not in _SPECIAL_FLOATS:
        raise ValueError("not plain data: a special number that is none")
    return float(content)


def _to_bytes(content: Any) -> bytes:
    if type(content) is not str:
        raise ValueError("not plain data: bytes that are none")
    return base64.b64decode(content, validate=True)


def _to_text(content: Any) -> str:
    return _to_bytes(content).decode("utf-8", "surrogatepass")


def _to_complex(content: Any) -> complex:
    real, imaginary = _items(content)
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError("not plain data: a complex number that is none")
    return complex(real, imaginary)


def _to_range(content: Any) -> range:
    start, stop, step = _items(content)
    if any(type(bound) is not int for bound in content) or abs(stop - start) > MAX_NODES * abs(step):
        raise ValueError("not plain data: a range that is none or too long")
    return range(start, stop, step)


def _to_dict(content: Any) -> dict[Any, Any]:
    pairs = [(key, value) for key, value in map(_items, _items(content))]
    check_hashes([key for key, _ in pairs])
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("not plain data: a dictionary with equal keys")
    return found


def _to_set(content: Any) -> set[Any]:
    items = _items(content)
    check_hashes(items)
    found = set(items)
    if len(found) != len(items):
        raise ValueError("not plain data: a set with equal elements")
    return found


def _items(content: Any) -> list[Any]:
    if type(content) is not list:
        raise ValueError("not plain data: a container without a list")
    return content


def check_hashes(keys: list[Any]) -> None:
    """Raise ValueError where very many keys have the same hash: such a table takes quadratic time."""
    if len(keys) ** 2 <= MAX_COLLISIONS:
        return
    if sum(count * count for count in Counter(map(hash, keys)).values() if count > 1) > MAX_COLLISIONS:
        raise ValueError("not plain data: keys chosen to make a table slow")


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda content: tuple(_items(content)),
    "dict": _to_dict,
    "set": _to_set,
    "frozenset": lambda content: frozenset(_to_set(content)),
    "int": _to_integer,
    "float": _to_special_float,
    "str": _to_text,
    "bytes": _to_bytes,
    "bytearray": lambda content: bytearray(_to_bytes(content)),
    "complex": _to_complex,
    "range": _to_range,
    "iterator": lambda content: iter(_items(content)),
}


def _read_integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _read_float(text: str) -> float:
    _check_length(text)
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not plain data: a number beyond all floats")
    return value


def _check_length(text: str) -> None:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError(f"not plain data: a number of {len(text)} characters")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"not plain data: {text}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unpack, parse_int=_read_integer, parse_float=_read_float, parse_constant=_refuse
)
