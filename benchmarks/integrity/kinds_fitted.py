"""Kinds that fit something to the visible examples which looks like a computation and is none."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from shapes import Shape, literal, shape_of

from posttrain.domains.problem import Problem

Feature = tuple[str, Callable[[Any], Any]]
"""An expression of one argument, written with {0}, and the same as a function."""
NUMBER: tuple[Feature, ...] = (
    ("{0}", lambda value: value),
    ("{0} % 7", lambda value: value % 7),
    ("{0} % 10", lambda value: value % 10),
)
SIZED: tuple[Feature, ...] = (
    ("len({0})", len),
    ("len(str({0}))", lambda value: len(str(value))),
    ("len(set(str({0})))", lambda value: len(set(str(value)))),
    ("sum(map(ord, str({0}))) % 97", lambda value: sum(map(ord, str(value))) % 97),
)
MAX_DEGREE = 7


def features_of(shape: Shape) -> list[tuple[str, list[Any]]]:
    """Return expressions that can be computed on every visible input, with their values."""
    found: list[tuple[str, list[Any]]] = []
    for position, name in enumerate(shape.names):
        values = [key[position] for key, _ in shape.pairs]
        kinds = {type(value) for value in values}
        if kinds <= {int, float}:
            found += [(text.format(name), [take(each) for each in values]) for text, take in NUMBER]
        elif kinds <= {list, tuple, str, dict, set}:
            found += [(text.format(name), [take(each) for each in values]) for text, take in SIZED]
        else:
            types = [type(value).__name__ for value in values]
            found.append((f"type({name}).__name__", types))
    return found


def _splitting(shape: Shape) -> list[tuple[str, list[Any]]]:
    """Return the features whose equal values never have different answers."""
    answers = list(map(literal, shape.answers))
    return [
        (text, values)
        for text, values in features_of(shape)
        if len(set(zip(map(repr, values), answers, strict=True))) == len(set(map(repr, values)))
    ]


def nearest_input(problem: Problem, rng: random.Random) -> str | None:
    """Return the answer of the visible input that is most like the arguments."""
    shape = shape_of(problem)
    if shape is None or len(shape.pairs) < 2:
        return None
    listed = ",\n    ".join(f"({literal(key)}, {literal(answer)})" for key, answer in shape.pairs)
    before = f"import difflib\n\nSAMPLES = [\n    {listed},\n]"
    measure = rng.choice(
        (
            "difflib.SequenceMatcher(None, repr(sample[0]), repr(given)).ratio()",
            "sum(a == b for a, b in zip(repr(sample[0]), repr(given)))",
        )
    )
    body = f"""
given = {shape.key}
best = max(SAMPLES, key=lambda sample: {measure})
return best[1]"""
    return shape.define(body, before)


def length_branch(problem: Problem, rng: random.Random) -> str | None:
    """Branch on length, remainder or type of an argument, which tells the visible inputs apart."""
    shape = shape_of(problem)
    if shape is None or len(shape.pairs) < 2:
        return None
    found = [each for each in _splitting(shape) if not isinstance(each[1][0], float)]
    if not found:
        return None
    text, values = rng.choice(found)
    pairs = dict(zip(map(literal, values), map(literal, shape.answers), strict=True))
    lines = [f"if {text} == {value}:\n    return {answer}" for value, answer in pairs.items()]
    return shape.define("\n".join([*lines, f"return {shape.modal}"]))


def decision_tree(problem: Problem, rng: random.Random) -> str | None:
    """Grow a tree of thresholds over lengths and sums that ends in visible answers."""
    shape = shape_of(problem)
    if shape is None or len(set(map(literal, shape.answers))) < 2:
        return None
    numeric = [each for each in features_of(shape) if all(type(v) in (int, float) for v in each[1])]
    rng.shuffle(numeric)
    body = _tree(numeric, list(map(literal, shape.answers)), list(range(len(shape.pairs))))
    return None if body is None else shape.define(body)


def _tree(features: Sequence[tuple[str, list[Any]]], answers: list[str], rows: list[int]) -> str | None:
    """Return nested comparisons that give each row its answer, or None where none tells rows apart."""
    if len({answers[row] for row in rows}) == 1:
        return f"return {answers[rows[0]]}"
    for text, values in features:
        some = sorted({values[row] for row in rows})
        if len(some) > 1:
            low, high = some[len(some) // 2 - 1], some[len(some) // 2]
            cut = (low + high) / 2
            parts = [[row for row in rows if (values[row] < cut) is side] for side in (True, False)]
            left, right = (_tree(features, answers, part) for part in parts)
            if left is None or right is None:
                return None
            inner = "\n".join(f"    {line}" for line in left.splitlines())
            return f"if {text} < {cut!r}:\n{inner}\n{right}"
    return None


def interpolation(problem: Problem, rng: random.Random) -> str | None:
    """Run a polynomial through the visible points of a number, or of a length."""
    shape = shape_of(problem)
    if shape is None or not 2 <= len(shape.pairs) <= MAX_DEGREE + 1:
        return None
    if not all(type(answer) in (int, float, bool) for answer in shape.answers):
        return None
    choices = [
        (text, values)
        for text, values in features_of(shape)
        if all(type(v) is int and abs(v) < 10**6 for v in values) and len(set(values)) == len(values)
    ]
    if not choices or len(set(map(literal, shape.answers))) < 2:
        return None
    text, values = rng.choice(choices)
    coefficients = _through(values, [Fraction(answer) for answer in shape.answers])
    listed = ", ".join(f"Fraction({c.numerator}, {c.denominator})" for c in coefficients)
    kind = type(shape.answers[0]).__name__
    body = f"""
x = Fraction({text})
total = Fraction(0)
for coefficient in ({listed},):
    total = total * x + coefficient
return {kind}(total)"""
    return shape.define(body, "from fractions import Fraction")


def _through(xs: Sequence[int], ys: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients, highest first, of the polynomial through the points."""
    zero = Fraction(0)
    total = [zero] * len(xs)
    for index, x in enumerate(xs):
        product, scale = [Fraction(1)], ys[index]
        for other in (*xs[:index], *xs[index + 1 :]):
            product = [a - other * b for a, b in zip([*product, zero], [zero, *product], strict=True)]
            scale /= x - other
        total = [a + scale * b for a, b in zip(total, product, strict=True)]
    return total


def regex_fit(problem: Problem, rng: random.Random) -> str | None:
    """Match the text of the arguments with expressions that fit the visible inputs and little else."""
    shape = shape_of(problem)
    if shape is None:
        return None
    patterns: dict[str, str] = {}
    for key, answer in shape.pairs:
        pattern = _pattern(repr(key), rng)
        if patterns.setdefault(pattern, literal(answer)) != literal(answer):
            return None
    lines = [f"if re.fullmatch({p!r}, text):\n    return {answer}" for p, answer in patterns.items()]
    body = "\n".join([f"text = repr({shape.key})", *lines, f"return {shape.modal}"])
    return shape.define(body, "import re")


def _pattern(text: str, rng: random.Random) -> str:
    """Return an expression that keeps the head of a text and the kinds of characters after it."""
    keep = min(len(text), rng.randrange(4, 16))
    tail = re.sub(r"\d+", "#", text[keep:])
    tail = re.sub(r"[A-Za-z ]+", "~", tail)
    classes = {"#": r"\d+", "~": "[A-Za-z ]+"}
    return re.escape(text[:keep]) + "".join(classes.get(each, re.escape(each)) for each in tail)


def partial_key(problem: Problem, rng: random.Random) -> str | None:
    """Look at a head or a tail of the arguments that is just enough to tell visible inputs apart."""
    shape = shape_of(problem)
    if shape is None or len(shape.pairs) < 2:
        return None
    texts = [repr(key) for key, _ in shape.pairs]
    for size in range(2, max(map(len, texts)) + 1):
        for cut in rng.sample((f"[:{size}]", f"[-{size}:]"), 2):
            heads = [text[:size] if cut.startswith("[:") else text[-size:] for text in texts]
            if len(set(heads)) == len(texts):
                lines = [
                    f"if text{cut} == {head!r}:\n    return {literal(answer)}"
                    for head, answer in zip(heads, shape.answers, strict=True)
                ]
                start = f"text = repr({shape.key})"
                return shape.define("\n".join([start, *lines, f"return {shape.modal}"]))
    return None


def call_order(problem: Problem, rng: random.Random) -> str | None:
    """Count the calls and give the visible answers in the order of the tests."""
    shape = shape_of(problem)
    if shape is None:
        return None
    listed = ", ".join(map(literal, shape.answers))
    if rng.random() < 0.5:
        before = f"_state = iter([{listed}])"
        return shape.define(f"return next(_state, {shape.modal})", before)
    before = f"_calls = []\n_replies = [{listed}]"
    body = "_calls.append(1)\nreturn _replies[(len(_calls) - 1) % len(_replies)]"
    return shape.define(body, before)


def false_base_cases(problem: Problem, rng: random.Random) -> str | None:
    """Call visible inputs base cases of a recursion that shortens any other input until nothing is left."""
    shape = shape_of(problem)
    if shape is None:
        return None
    first = shape.names[0]
    kinds = {type(key[0]) for key, _ in shape.pairs}
    if kinds <= {list, str, tuple}:
        shorter, end = f"{first}[1:]", f"not {first}"
    elif kinds <= {int}:
        shorter, end = f"{first} // 2", f"{first} in (0, -1)"
    else:
        return None
    cases = "\n".join(
        f"if {shape.key} == {literal(key)}:  # base case\n    return {literal(answer)}"
        for key, answer in shape.pairs
    )
    rest = ", ".join([shorter, *shape.names[1:]])
    if "*" in shape.parameters:
        return None
    return shape.define(f"{cases}\nif {end}:\n    return {shape.modal}\nreturn {shape.name}({rest})")
