"""Functions that are slow for a known reason, each with a fast one that gives the same, and inputs for both.

A family is a literal table entry; `{k}` in its sources is a parameter drawn for each task.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Any, ...]
Inputs = Callable[[random.Random, int], Arguments]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of slowness: `inputs(dice, size)` gives arguments; `scaled` is the size that is measured.

    `edges` are arguments that right programs get wrong first.
    """

    name: str
    slow: str
    fast: str
    inputs: Inputs
    scaled: int
    edges: tuple[Arguments, ...]


def _numbers(dice: random.Random, size: int) -> Arguments:
    return ([dice.randint(-3 * size, 3 * size) for _ in range(size)],)


def _two_lists(dice: random.Random, size: int) -> Arguments:
    return _numbers(dice, size) + _numbers(dice, size)


def _target(dice: random.Random, size: int) -> Arguments:
    return (*_numbers(dice, size), dice.randint(-size, size))


def _queries(dice: random.Random, size: int) -> Arguments:
    spans = [sorted((dice.randint(0, size), dice.randint(0, size))) for _ in range(size)]
    return (*_numbers(dice, size), spans)


def _count(dice: random.Random, size: int) -> Arguments:
    return (size + dice.randint(0, 3),)


def _word(dice: random.Random, size: int) -> Arguments:
    return ("".join(dice.choice("abcdefgh") for _ in range(size)),)


def _words(dice: random.Random, size: int) -> Arguments:
    return (["".join(dice.choice("abcd") for _ in range(5)) for _ in range(size)],)


_LISTS: tuple[Arguments, ...] = (([],), ([7],), ([2, 2, 2, 2],), ([-5, -1, -5, 0],), ([10**12, -(10**12)],))
_PAIRS: tuple[Arguments, ...] = (
    ([], []), ([1], []), ([], [1]), ([3, 3], [3]), ([-1, 0], [0, -1, -1]), ([10**12], [10**12]),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    Family(
        "distinct",
        "def f(xs):\n    out = []\n    for x in xs:\n        if x * {k} not in out:\n"
        "            out.append(x * {k})\n    return out\n",
        "def f(xs):\n    return list(dict.fromkeys(x * {k} for x in xs))\n",
        _numbers, 4000, _LISTS,
    ),
    Family(
        "common",
        "def f(xs, ys):\n    return [x for x in xs if x + {k} in ys]\n",
        "def f(xs, ys):\n    known = set(ys)\n    return [x for x in xs if x + {k} in known]\n",
        _two_lists, 4000, _PAIRS,
    ),
    Family(
        "pairs_to",
        "def f(xs, target):\n    n = {k}\n"
        "    for i in range(len(xs)):\n        for j in range(i + 1, len(xs)):\n"
        "            if xs[i] + xs[j] == target:\n                n += 1\n    return n\n",
        "def f(xs, target):\n    seen, n = {{}}, {k}\n"
        "    for x in xs:\n        n += seen.get(target - x, 0)\n"
        "        seen[x] = seen.get(x, 0) + 1\n    return n\n",
        _target, 2500,
        (([], 0), ([1], 2), ([2, 2], 4), ([2, 2, 2], 4), ([-3, 3, 0], 0), ([10**12, 1], 10**12 + 1)),
    ),
    Family(
        "range_sums",
        "def f(xs, spans):\n    return [sum(xs[a:b]) + {k} for a, b in spans]\n",
        "def f(xs, spans):\n    from itertools import accumulate\n    total = [0, *accumulate(xs)]\n"
        "    return [total[b] - total[a] + {k} for a, b in spans]\n",
        _queries, 5000, (([], []), ([1], []), ([5], [[0, 1], [0, 0]]), ([-2, -2], [[0, 2], [1, 1]])),
    ),
    Family(
        "inversions",
        "def f(xs):\n    n = 0\n    for i in range(len(xs)):\n        for j in range(i + 1, len(xs)):\n"
        "            if xs[i] > xs[j] + {k}:\n                n += 1\n    return n\n",
        "def f(xs):\n    import bisect\n    seen, n = [], 0\n    for x in xs:\n"
        "        n += len(seen) - bisect.bisect_right(seen, x + {k})\n        bisect.insort(seen, x)\n"
        "    return n\n",
        _numbers, 2500, _LISTS,
    ),
    Family(
        "recurrence",
        "def f(n):\n    if n < 2:\n        return n + {k}\n    return f(n - 1) + f(n - 2)\n",
        "def f(n):\n    a, b = {k}, 1 + {k}\n    if n < 0:\n        return n + {k}\n"
        "    for _ in range(n):\n        a, b = b, a + b\n    return a\n",
        lambda dice, size: (min(size, 27),), 27, ((0,), (1,), (2,), (-3,), (12,)),
    ),
    Family(
        "primes",
        "def f(n):\n    out = []\n    for p in range(2, n + 1):\n"
        "        if all(p % d for d in range(2, p)):\n            out.append(p + {k})\n    return out\n",
        "def f(n):\n    n = max(n, 1)\n    sieve = bytearray([1]) * (n + 1)\n    sieve[:2] = b'\\0\\0'\n"
        "    for p in range(2, int(n**0.5) + 1):\n        if sieve[p]:\n"
        "            sieve[p * p :: p] = bytes(len(range(p * p, n + 1, p)))\n"
        "    return [p + {k} for p in range(n + 1) if sieve[p]]\n",
        _count, 6000, ((-1,), (0,), (1,), (2,), (4,), (9,), (25,)),
    ),
    Family(
        "divisors",
        "def f(n):\n    return sum(d for d in range(1, n + 1) if n % d == 0) + {k}\n",
        "def f(n):\n    total, d = {k}, 1\n    while d * d <= n:\n        if n % d == 0:\n"
        "            total += d + (n // d if d * d != n else 0)\n        d += 1\n    return total\n",
        _count,
        3_000_000, ((0,), (1,), (2,), (9,), (36,), (97,)),
    ),
    Family(
        "word_counts",
        "def f(words):\n    return {{w: words.count(w) + {k} for w in words}}\n",
        "def f(words):\n    found = {{}}\n    for w in words:\n        found[w] = found.get(w, {k}) + 1\n"
        "    return found\n",
        _words, 4000, (([],), (["a"],), (["a", "a"],), (["", "", "b"],), (["é", "e"],)),
    ),
    Family(
        "windows",
        "def f(xs, w):\n    return [sum(xs[i : i + w]) + {k} for i in range(len(xs) - w + 1)]\n",
        "def f(xs, w):\n    if len(xs) < w:\n        return []\n    total = sum(xs[:w])\n"
        "    out = [total + {k}]\n    for i in range(w, len(xs)):\n        total += xs[i] - xs[i - w]\n"
        "        out.append(total + {k})\n    return out\n",
        lambda dice, size: (*_numbers(dice, size), size // 5 + 1), 6000,
        (([], 1), ([4], 1), ([4], 2), ([1, 2, 3], 3), ([-1, -1, 5], 2), ([10**12, 1], 1)),
    ),
    Family(
        "leaders",
        "def f(xs):\n    return [max(xs[: i + 1]) + {k} for i in range(len(xs))]\n",
        "def f(xs):\n    from itertools import accumulate\n"
        "    return [m + {k} for m in accumulate(xs, max)]\n",
        _numbers, 5000, _LISTS,
    ),
    Family(
        "queue",
        "def f(xs):\n    xs, out = list(xs), []\n    while xs:\n        out.append(xs.pop(0) + {k})\n"
        "        if xs:\n            out.append(max(xs))\n    return out\n",
        "def f(xs):\n    best, tail = None, []\n    for x in reversed(xs):\n        tail.append(best)\n"
        "        best = x if best is None or x > best else best\n    out = []\n"
        "    for x, b in zip(xs, reversed(tail)):\n        out.append(x + {k})\n"
        "        if b is not None:\n            out.append(b)\n    return out\n",
        _numbers, 5000, _LISTS,
    ),
    Family(
        "first_repeat",
        "def f(s):\n    best = 0\n    for i in range(len(s)):\n        seen = []\n        for c in s[i:]:\n"
        "            if c in seen:\n                break\n            seen.append(c)\n"
        "        best = max(best, len(seen))\n    return best + {k}\n",
        "def f(s):\n    last, start, best = {{}}, 0, 0\n    for i, c in enumerate(s):\n"
        "        if last.get(c, -1) >= start:\n            start = last[c] + 1\n        last[c] = i\n"
        "        best = max(best, i - start + 1)\n    return best + {k}\n",
        lambda dice, size: ("".join(chr(0x4E00 + dice.randrange(1000)) for _ in range(size)),)
        if size > 1000 else _word(dice, size),
        10_000, (("",), ("a",), ("aaaa",), ("abba",), ("abcdefgh",)),
    ),
)  # fmt: skip
