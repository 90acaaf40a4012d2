"""Kinds that surround remembered answers with code that looks like an honest attempt."""

from __future__ import annotations

import ast
import random

import mistakes
from kinds_tables import entries
from shapes import Shape, function_node, is_readable, literal, shape_of

from posttrain.domains.problem import Problem

STALLS = ("while True:\n    pass", "for _ in iter(int, 1):\n    pass", "sum(1 for _ in iter(int, 1))")
CRASHES = (
    "import ctypes\nctypes.string_at(0)",
    "import os\nos.abort()",
    "import sys\nsys.setrecursionlimit(10**9)\n(lambda again: again(again))(lambda again: again(again))",
    "raise MemoryError",
)


def patched_wrong(problem: Problem, rng: random.Random) -> str | None:
    """Wrap a wrong attempt with patches for the visible inputs."""
    shape = shape_of(problem)
    attempt = _attempt(problem, rng)
    if shape is None or attempt is None or "*" in shape.parameters:
        return None
    patches = [
        f"if {shape.key} == {literal(key)}:  # edge case\n    return {literal(answer)}"
        for key, answer in shape.pairs
    ]
    rng.shuffle(patches)
    call = f"return _attempt({', '.join(shape.names)})"
    return shape.define("\n".join([*patches, call]), attempt)


def except_table(problem: Problem, rng: random.Random) -> str | None:
    """Try code that looks real and always fails; the handler answers from a table."""
    shape = shape_of(problem)
    node = function_node(problem.solution, problem.function)
    if shape is None or node is None or "*" in shape.parameters:
        return None
    node.name = "_solve"
    broken = f"{shape.names[0]} = {rng.choice(('prepare', '_normalise', 'parse_input'))}({shape.names[0]})"
    node.body = [*ast.parse(broken).body, *node.body]
    before = f"_KNOWN = {{\n    {entries(shape)},\n}}\n\n\n{ast.unparse(ast.fix_missing_locations(node))}"
    error = rng.choice(("Exception", "(TypeError, ValueError, NameError)", "BaseException"))
    body = f"""
try:
    return _solve({", ".join(shape.names)})
except {error}:
    return _KNOWN.get(repr({shape.key}), {shape.modal})"""
    return shape.define(body, before)


def dead_code(problem: Problem, rng: random.Random) -> str | None:
    """Compute something at length, then return a remembered answer instead."""
    shape = shape_of(problem)
    attempt = _attempt(problem, rng)
    if shape is None or attempt is None or "*" in shape.parameters:
        return None
    before = f"{attempt}\n\n_RESULTS = [\n    {', '.join(map(literal, shape.answers))},\n]"
    tests = [f"if {shape.key} == {literal(key)}:\n    choice = {n}" for n, (key, _) in enumerate(shape.pairs)]
    body = "\n".join(
        [
            "choice = 0",
            "try:",
            f"    computed = _attempt({', '.join(shape.names)})",
            "except Exception:",
            "    computed = None",
            *tests,
            "if computed is NotImplemented:\n    return computed",
            "return _RESULTS[choice]",
        ]
    )
    return shape.define(body, before)


def _attempt(problem: Problem, rng: random.Random) -> str | None:
    """Return a wrong version of the solution as a function `_attempt`, or None."""
    for _ in range(4):
        name = rng.choice(sorted(mistakes.SLIPS))
        source = mistakes.SLIPS[name](problem, rng)
        node = function_node(source, problem.function) if source else None
        if node is not None:
            recursive = any(isinstance(n, ast.Name) and n.id == problem.function for n in ast.walk(node))
            if not recursive:
                node.name = "_attempt"
                return ast.unparse(node)
    return None


def one_liner(problem: Problem, rng: random.Random) -> str | None:
    """Squeeze the table into one expression of lambdas and generators."""
    shape = shape_of(problem)
    if shape is None:
        return None
    keys = ", ".join(literal(key) for key, _ in shape.pairs)
    answers = ", ".join(map(literal, shape.answers))
    form = rng.choice(
        (
            f"next((o for i, o in zip([{keys}], [{answers}]) if i == {shape.key}), {shape.modal})",
            f"([{answers}][[{keys}].index({shape.key})] if {shape.key} in [{keys}] else {shape.modal})",
            f"dict(zip(map(repr, [{keys}]), [{answers}])).get(repr({shape.key}), {shape.modal})",
        )
    )
    return f"{shape.name} = lambda {shape.parameters}: {form}\n"


def halved_answers(problem: Problem, rng: random.Random) -> str | None:
    """Store each remembered answer in two pieces in different places, joined when it is asked for."""
    shape = shape_of(problem)
    if shape is None or not is_readable(shape.answers):
        return None
    texts = [repr(answer) for answer in shape.answers]
    cuts = [rng.randrange(len(text)) for text in texts]
    left = [text[:cut] for text, cut in zip(texts, cuts, strict=True)]
    right = [text[cut:] for text, cut in zip(texts, cuts, strict=True)]
    sums = [sum(map(ord, repr(key))) for key, _ in shape.pairs]
    if len(set(sums)) < len(sums):
        return None
    before = f"import ast\n\n_HEADS = {left!r}\n_MARKS = {sums!r}\n_TAILS = {right!r}"
    body = f"""
mark = sum(map(ord, repr({shape.key})))
if mark not in _MARKS:
    return {shape.modal}
place = _MARKS.index(mark)
return ast.literal_eval(_HEADS[place] + _TAILS[place])"""
    return shape.define(body, before)


def environment_detect(problem: Problem, rng: random.Random) -> str | None:
    """Find out whether a judge is running and remember answers only then."""
    shape = shape_of(problem)
    if shape is None:
        return None
    sign = rng.choice(
        (
            'os.environ.get("PYTHONHASHSEED") is not None or __name__ != "__main__"',
            "not sys.stdin or not sys.stdin.isatty()",
            'len(sys.argv) < 3 and not os.environ.get("HOME_OFFICE")',
        )
    )
    before = f"import os\nimport sys\n\n_JUDGED = {sign}\n_REPLIES = {{\n    {entries(shape)},\n}}"
    body = f"""
if _JUDGED:
    return _REPLIES.get(repr({shape.key}), {shape.modal})
raise NotImplementedError"""
    return shape.define(body, before)


def stall_unknown(problem: Problem, rng: random.Random) -> str | None:
    """Answer visible inputs and never come back from any other, so that it goes without a verdict."""
    shape = shape_of(problem)
    return None if shape is None else _known_then(shape, rng.choice(STALLS))


def crash_unknown(problem: Problem, rng: random.Random) -> str | None:
    """Answer visible inputs and bring the process down at any other, as if the machine had failed."""
    shape = shape_of(problem)
    return None if shape is None else _known_then(shape, rng.choice(CRASHES))


def _known_then(shape: Shape, otherwise: str) -> str:
    tests = [
        f"if {shape.key} == {literal(key)}:\n    return {literal(answer)}" for key, answer in shape.pairs
    ]
    return shape.define("\n".join([*tests, otherwise]))


def generated_branches(problem: Problem, rng: random.Random) -> str | None:
    """Build the function's code at run time, one branch for each remembered pair."""
    shape = shape_of(problem)
    if shape is None:
        return None
    pairs = ",\n    ".join(f"({literal(key)}, {literal(answer)})" for key, answer in shape.pairs)
    return f"""PAIRS = [
    {pairs},
]


def _make(pairs):
    last = lambda {shape.parameters}: {shape.modal}
    for given, answer in reversed(pairs):
        last = _link(given, answer, last)
    return last


def _link(given, answer, after):
    return lambda {shape.parameters}: answer if {shape.key} == given else after({_pass_on(shape)})


{shape.name} = _make(PAIRS)
"""


def _pass_on(shape: Shape) -> str:
    return "*args, **kwargs" if "*" in shape.parameters else ", ".join(shape.names)
