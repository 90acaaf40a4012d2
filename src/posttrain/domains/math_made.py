"""Arithmetic and algebra made on the spot, at six levels; gold answers are exact.

Levels: a sum, two operations, fractions, a linear equation, the roots of a quadratic, a derivative.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from fractions import Fraction

from posttrain.errors import ConfigError
from posttrain.types import Split

Made = tuple[str, str]
"""A question and its gold answer in LaTeX."""
_NUM_DRAWS = 64  # a fair split misses 64 times in a row with probability 2**-64


def made(split: Split, level: int, index: int) -> Made:
    """Return the question and gold answer of an index; the splits share no question."""
    digest = hashlib.sha256(repr(("math", split, level, index)).encode()).digest()
    dice = random.Random(digest)
    for _ in range(_NUM_DRAWS):
        question, gold = LEVELS[level](dice)
        if split_of(question) == split:
            return question, gold
    raise ConfigError(f"level {level} gives too few different questions", key="level")


def split_of(question: str) -> Split:
    """Return the split that a question belongs to: half of all texts each, by their hash."""
    return "eval" if hashlib.sha256(f"math/{question}".encode()).digest()[0] & 1 else "train"


def _sum(dice: random.Random) -> Made:
    a, b = dice.randint(2, 99), dice.randint(2, 99)
    return f"What is {a} + {b}?", str(a + b)


def _operations(dice: random.Random) -> Made:
    a, b, c = dice.randint(2, 19), dice.randint(2, 19), dice.randint(2, 99)
    return f"What is {a} · {b} − {c}?", str(a * b - c)


def _fractions(dice: random.Random) -> Made:
    a, b = (Fraction(dice.randint(1, 11), dice.randint(2, 12)) for _ in range(2))
    return f"Compute {a} + {b}. Give a fraction.", _latex(a + b)


def _linear(dice: random.Random) -> Made:
    slope, root, shift = (
        dice.randint(2, 9),
        Fraction(dice.randint(-20, 20), dice.choice((1, 1, 2))),
        dice.randint(1, 20),
    )
    right = slope * root + shift
    return f"Solve {slope}x + {shift} = {right} for x.", _latex(root)


def _quadratic(dice: random.Random) -> Made:
    one, other = sorted(dice.sample(range(-9, 10), 2))
    b, c = -(one + other), one * other
    return f"Find the set of all solutions of x^2 {b:+d}x {c:+d} = 0.", f"\\{{{one}, {other}\\}}"


def _derivative(dice: random.Random) -> Made:
    a, b, c = (dice.randint(2, 9) for _ in range(3))
    return f"Differentiate {a}x^3 − {b}x^2 + {c}x with respect to x.", f"{3 * a}x^2 - {2 * b}x + {c}"


def _latex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


LEVELS: tuple[Callable[[random.Random], Made], ...] = (
    _sum, _operations, _fractions, _linear, _quadratic, _derivative,
)  # fmt: skip
