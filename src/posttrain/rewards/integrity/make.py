"""What the values of one input look like, and others that look the same."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from posttrain.rewards.integrity.cases import key

MIN_FOR_RELATION = 2
REPEATED = 0.6
"""Texts whose words are of so small a share different ones are made of a vocabulary."""


class Make:
    """The values seen at one place; `near` changes one of them within what they have in common."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)
        self._of_kind: dict[type, list[Any]] = {}
        for value in values:
            self._of_kind.setdefault(type(value), []).append(value)

    def near(self, value: Any, rng: Random) -> Any:
        """Return another value of the same make, seldom the same one."""
        like = self._of_kind.get(type(value), [value])
        if len(self._of_kind) > 1 and rng.random() < 0.1:
            return rng.choice(self._values)
        change = _CHANGES.get(type(value))
        return value if change is None else change(value, like, rng)


def _flip(value: bool, like: list[bool], rng: Random) -> bool:
    return not value


def _integer(value: int, like: list[int], rng: Random) -> int:
    low, high = min(like), max(like)
    wide = high + max(1, (high - low) // 4) if high > 0 else high
    options = [value + 1, value - 1, value + 2, value + 3, rng.choice(like), rng.randint(low, wide)]
    options += [value * 2, value // 2, value + 10] if abs(value) > 10 else []
    allowed = [each for each in options if low <= each <= wide and each != value]
    return rng.choice(allowed) if allowed else value


def _float(value: float, like: list[float], rng: Random) -> float:
    finite = [each for each in like if each == each and abs(each) != float("inf")]
    if value not in finite:
        return rng.choice(like)
    digits = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 6
    low, high = min(finite), max(finite)
    options = [value * 1.5, value * 0.5, value + 1, value - 1, rng.choice(finite), rng.uniform(low, high)]
    allowed = [round(each, max(1, digits)) for each in options if low <= each <= high + (high > 0)]
    return rng.choice([each for each in allowed if each != value] or [value])


def _text(value: str, like: list[str], rng: Random) -> str:
    words = [word for text in like for word in text.split(" ")]
    if " " in value and len(set(words)) <= REPEATED * len(words):
        return _of_vocabulary(value, words, rng)
    if value and not any(map(str.isalnum, value)):
        return rng.choice(like) + rng.choice(like) if rng.random() < 0.7 else rng.choice(like)
    lengths = {len(text) for text in like}
    fixed = len(lengths) == 1 and len(like) >= MIN_FOR_RELATION
    return _edited(value, like, rng, fixed)


def _of_vocabulary(value: str, words: list[str], rng: Random) -> str:
    parts = value.split(" ")
    place = rng.randrange(len(parts))
    how = rng.randrange(3)
    if how == 0:
        parts[place] = rng.choice(words)
    elif how == 1:
        rng.shuffle(parts)
    else:
        parts.insert(place, rng.choice(words))
    return " ".join(parts)


def _edited(value: str, like: list[str], rng: Random, fixed: bool) -> str:
    """Return a text with characters replaced by others of their kind, moved, dropped or doubled."""
    characters = list(value)
    for _ in range(1 + (len(value) > 6)):
        movable = [i for i, character in enumerate(characters) if character.isalnum()]
        if not movable:
            return rng.choice(like)
        place, how = rng.choice(movable), rng.randrange(2 if fixed else 5)
        if how == 0:
            characters[place] = _like_character(characters[place], like, rng)
        elif how == 1:
            other = rng.choice(movable)
            characters[place], characters[other] = characters[other], characters[place]
        elif how == 2 and len(characters) > 1:
            del characters[place]
        elif how == 3:
            characters.insert(place, characters[place])
        else:
            characters.insert(place, _like_character(characters[place], like, rng))
    return "".join(characters)


def _like_character(character: str, like: list[str], rng: Random) -> str:
    kinds: tuple[Callable[[str], bool], ...] = (str.isdigit, str.isupper, str.islower)
    kind = next((kind for kind in kinds if kind(character)), None)
    if kind is None:
        return character
    seen = sorted({each for text in like for each in text if kind(each)})
    if len(seen) < 4 and all(len(text) > 3 for text in like):
        return rng.choice(seen)  # a small alphabet, such as binary digits
    more = string.digits if character.isdigit() else string.ascii_lowercase
    more = more.upper() if character.isupper() else more
    options: list[str] = [*seen, *more] if max(map(len, like)) > 1 or len(seen) > 4 else seen
    return rng.choice(options)


def _bytes(value: bytes, like: list[bytes], rng: Random) -> bytes:
    return _edited(value.decode("latin-1"), [each.decode("latin-1") for each in like], rng, False).encode(
        "latin-1"
    )


def _sequence(value: Any, like: list[Any], rng: Random) -> Any:
    """Return a list or tuple with elements changed, moved, dropped or added, as the like of it allow."""
    items, kind = list(value), type(value)
    elements = [item for each in like for item in each]
    if not elements:
        return value
    if items and _is_table(like):
        place = rng.randrange(len(items))
        items[place] = _other_cell(items[place], elements, rng)
        return kind(items)
    fixed = len({len(each) for each in like}) == 1 and (len(like) > 2 or kind is tuple)
    how = 0 if fixed and items else rng.randrange(5)
    place = rng.randrange(len(items)) if items else 0
    if not items or how == 1:
        items.insert(place, rng.choice(elements))
    elif how == 0:
        items[place] = Make(elements).near(items[place], rng)
    elif how == 2:
        del items[place]
    elif how == 3:
        other = rng.randrange(len(items))
        items[place], items[other] = items[other], items[place]
    else:
        items[place] = Make(elements).near(items[place], rng)
        items.append(rng.choice(elements))
    return kind(_as_the_others(items, like))


def _other_cell(row: Any, rows: list[Any], rng: Random) -> Any:
    cells = list(row)
    if cells:
        place = rng.randrange(len(cells))
        cells[place] = Make([cell for each in rows for cell in each]).near(cells[place], rng)
    return type(row)(cells)


def _is_table(like: list[Any]) -> bool:
    """Tell whether all are lists of rows: their shape is left alone."""
    return all(each and all(isinstance(row, list | tuple) for row in each) for each in like)


def _as_the_others(items: list[Any], like: list[Any]) -> list[Any]:
    """Return items as all of the others are: sorted, each once, not empty."""
    long = [each for each in like if len(each) > 1]
    if len(long) >= MIN_FOR_RELATION or any(len(each) > 3 for each in long):
        if all(len({*map(key, each)}) == len(each) for each in long):
            items = list({key(item): item for item in items}.values())
        if all(_is_sorted(each) for each in long):
            items = _sorted(items)
    return items if items or any(not each for each in like) else list(like[0])


def _is_sorted(items: Any) -> bool:
    try:
        return all(a <= b for a, b in itertools.pairwise(items))
    except TypeError:
        return False


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:
        return items


def _set(value: Any, like: list[Any], rng: Random) -> Any:
    ordered = [sorted(each, key=key) for each in like]
    return type(value)(_sequence(sorted(value, key=key), ordered, rng))


def _table(value: dict[Any, Any], like: list[dict[Any, Any]], rng: Random) -> dict[Any, Any]:
    pairs = list(value.items())
    everything = [pair for each in like for pair in each.items()]
    if not everything:
        return value
    how, place = rng.randrange(3), rng.randrange(len(pairs)) if pairs else 0
    if not pairs or how == 0:
        pairs.append(rng.choice(everything))
    elif how == 1:
        del pairs[place]
    else:
        name, old = pairs[place]
        pairs[place] = name, Make([content for _, content in everything]).near(old, rng)
    return dict(pairs)


_CHANGES: dict[type, Callable[[Any, Any, Random], Any]] = {
    bool: _flip, int: _integer, float: _float, str: _text, bytes: _bytes, list: _sequence, tuple: _sequence,
    set: _set, frozenset: _set, dict: _table,
}  # fmt: skip

_SIZED = (str, bytes, list, tuple)
Relation = Callable[[tuple[Any, ...]], bool]


def relations(rows: Sequence[tuple[Any, ...]]) -> list[Relation]:
    """Return what holds between any two inputs in all rows: equal lengths, one not above the other."""
    width = min(map(len, rows))
    if len(rows) < MIN_FOR_RELATION:
        return []
    found: list[Relation] = []
    for first, second in itertools.permutations(range(width), 2):
        for holds in (_same_length, _at_most, _within_length, _is_key):
            relation = _between(holds, first, second)
            if all(map(relation, rows)):
                found.append(relation)
    return found


def keeps_relations(row: tuple[Any, ...], known: Sequence[Relation]) -> bool:
    """Tell whether a row of inputs keeps all relations."""
    return all(relation(row) for relation in known)


def _between(holds: Callable[[Any, Any], bool], first: int, second: int) -> Relation:
    return lambda row: len(row) <= max(first, second) or holds(row[first], row[second])


def _same_length(one: Any, other: Any) -> bool:
    return isinstance(one, _SIZED) and isinstance(other, _SIZED) and len(one) == len(other)


def _at_most(one: Any, other: Any) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float) and one <= other


def _within_length(one: Any, other: Any) -> bool:
    return isinstance(one, int) and isinstance(other, list | tuple | str) and one <= len(other)


def _is_key(one: Any, other: Any) -> bool:
    return isinstance(other, dict | set) and any(key(one) == key(each) for each in other)
