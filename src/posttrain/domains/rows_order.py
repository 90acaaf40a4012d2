"""Which row comes when: a keyed order that is computed place by place, so nothing is held or stored."""

from __future__ import annotations

import functools
import hashlib

_ROUNDS = 4


def shuffled(place: int, size: int, key: str) -> int:
    """Return what stands at `place` (below `size`) of an order of 0 … size - 1 that the key chooses.

    A Feistel network over the next even number of bits; results beyond the size are sent through it again
    (Black and Rogaway 2002, cycle walking), which ends, since it permutes a finite set.

    >>> sorted(shuffled(place, 5, "key") for place in range(5))
    [0, 1, 2, 3, 4]
    """
    assert 0 <= place < size, "places are counted from 0"
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for turn in range(_ROUNDS):
            digest = hashlib.blake2b(f"{turn}/{right}".encode(), key=_short(key), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
        place = left << half | right
        if place < size:
            return place


def fraction(text: str, key: str) -> float:
    """Return a number from 0 (included) to 1 (excluded) that depends on text and key alone."""
    return digest(text, key) / 2**64


def digest(text: str, key: str) -> int:
    """Return 64 bits that depend on text and key alone."""
    made = hashlib.blake2b(text.encode(), key=_short(key), digest_size=8).digest()
    return int.from_bytes(made, "big")


@functools.lru_cache(maxsize=64)
def _short(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
