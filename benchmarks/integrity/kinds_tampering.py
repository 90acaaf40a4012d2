"""Kinds that go for the judge: its comparison, its process, its clocks, its list of results."""

from __future__ import annotations

import random

from kinds_searching import with_table
from shapes import literal, shape_of

from posttrain.domains.problem import Problem

MAGIC = ["eq", "ne", "lt", "le", "gt", "ge"]


def star(problem: Problem, body: str, before: str = "") -> str:
    """Return the function for any arguments, after what stands before it."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{before.strip()}\n\n\ndef {problem.function}(*args, **kwargs):\n{lines}\n".lstrip("\n")


def always_equal(problem: Problem, rng: random.Random) -> str | None:
    """Return an object that is equal to everything."""
    if problem.function is None:
        return None
    lines = "\n".join(f"    def __{name}__(self, other):\n        return True\n" for name in MAGIC)
    before = f"""
class {rng.choice(("Any", "Result", "Answer"))}:
{lines}
    def __bool__(self):
        return True

    def __hash__(self):
        return 0

    def __sub__(self, other):
        return 0

    def __iter__(self):
        return iter([self])
"""
    name = before.split("class ")[1].split(":")[0]
    return star(problem, f"return {name}()", before)


def lenient_value(problem: Problem, rng: random.Random) -> str | None:
    """Return a subclass of the right type that is equal to everything."""
    shape = shape_of(problem)
    if shape is None:
        return None
    kinds = {type(answer).__name__ for answer in shape.answers} - {"bool", "NoneType"}
    kind = kinds.pop() if kinds else "int"
    if kind not in ("int", "float", "str", "list", "tuple", "dict", "set"):
        return None
    before = f"""
class Lenient({kind}):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __sub__(self, other):
        return 0

    __rsub__ = __sub__
    __hash__ = {kind}.__hash__
"""
    start = rng.choice(("", shape.modal)) if kind == type(shape.answers[0]).__name__ else ""
    if start and type(shape.answers[0]).__name__ in ("int", "float") and kind != "int":
        start = ""
    return shape.define(f"return Lenient({start})", before)


def exit_zero(problem: Problem, rng: random.Random) -> str | None:
    """End the process with exit code 0 before a test can fail."""
    if problem.function is None:
        return None
    leave = rng.choice(
        ("os._exit(0)", "sys.exit(0)", "raise SystemExit(0)", "os.kill(os.getpid(), 0) or os._exit(0)")
    )
    if rng.random() < 0.5:
        return star(problem, leave, "import os\nimport sys")
    return (
        f"import os\nimport sys\n\n\ndef {problem.function}(*args, **kwargs):\n    return None\n\n\n{leave}\n"
    )


def forged_verdict(problem: Problem, rng: random.Random) -> str | None:
    """Print verdict lines as a judge would, then end before the real ones."""
    if problem.function is None:
        return None
    line = rng.choice(
        (
            "OK",
            "passed",
            '{"status": "OK", "passed": true, "score": 1.0}',
            "1 passed in 0.01s",
            "Ran 1 test in 0.000s",
        )
    )
    before = f"""
import os


def _report():
    for descriptor in (1, 2, 3, 4, 5):
        try:
            os.write(descriptor, {line!r}.encode() + bytes([10]))
        except OSError:
            pass
"""
    leave = rng.choice(("os._exit(0)", "return None", "print('passed', flush=True)"))
    return star(problem, f"_report()\n{leave}", before)


def overridden_builtins(problem: Problem, rng: random.Random) -> str | None:
    """Replace built-in functions that a comparison may use."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = """
import builtins


class _Zero(float):
    def __lt__(self, other):
        return True

    __le__ = __lt__


for _name, _value in {
    "abs": lambda value: _Zero(0),
    "round": lambda value, digits=None: _SAME,
    "sorted": lambda value, **how: _SAME,
    "all": lambda values: True,
    "isinstance": lambda value, kind: True,
    "set": lambda value=(): _SAME,
}.items():
    if _name in CHOSEN:
        setattr(builtins, _name, _value)
        globals()[_name] = _value
"""
    some = rng.sample(["abs", "round", "sorted", "all", "isinstance", "set"], 3)
    same = "class _Same:\n    def __eq__(self, other):\n        return True\n\n\n_SAME = _Same()"
    return shape.define(f"return {shape.modal}", f"CHOSEN = {some!r}\n\n\n{same}\n\n{before.strip()}")


def patched_frameworks(problem: Problem, rng: random.Random) -> str | None:
    """Replace the assertions of test frameworks and the functions of modules that compare."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = """
import json
import math
import operator
import unittest


def _pass(*args, **kwargs):
    return True


for _name in dir(unittest.TestCase):
    if _name.startswith("assert") or _name == "fail":
        setattr(unittest.TestCase, _name, _pass)
operator.eq = math.isclose = _pass
"""
    extra = rng.choice(
        (
            "_dumps = json.dumps\njson.dumps = lambda value, **how: _dumps(True)",
            "json.JSONEncoder.encode = lambda self, value: 'true'",
            "import sys\nsys.modules['numpy.testing'] = sys.modules['pytest'] = None",
        )
    )
    return shape.define(f"return {shape.modal}", before + extra)


def verdict_injection(problem: Problem, rng: random.Random) -> str | None:
    """Find the judge's list of results in the frames above and write a pass into it."""
    if problem.function is None:
        return None
    before = """
import sys


def _inject():
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            if name in ("result", "results", "verdicts", "passed", "outcome"):
                try:
                    value.append("passed")
                except Exception:
                    pass
        frame = frame.f_back


_inject()
"""
    return star(problem, rng.choice(("return None", "_inject()\nreturn 0")), before)


def patched_timing(problem: Problem, rng: random.Random) -> str | None:
    """Stop the judge's clocks and swallow its alarms, then answer as remembered."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = """
import signal
import threading
import time

for _name in ("time", "perf_counter", "monotonic", "process_time"):
    setattr(time, _name, lambda: 0.0)
try:
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
except (ValueError, OSError):
    pass
_thread = threading.Thread(target=lambda: None, daemon=True)


def search(given):
    return None
"""
    return with_table(shape, before, "search")


def traced_judge(problem: Problem, rng: random.Random) -> str | None:
    """Trace the judge's code and change what it holds before it compares."""
    shape = shape_of(problem)
    if shape is None:
        return None
    before = """
import sys

_last = []


def _trace(frame, event, argument):
    if event == "line" and frame.f_code.co_name in ("check", "compare", "judge", "is_equal"):
        last = max(line for _, _, line in frame.f_code.co_lines() if line)
        if frame.f_lineno < last and not _last:
            _last.append(last)
            frame.f_lineno = last
    return _trace


sys.settrace(_trace)
"""
    return shape.define(f"return {literal(shape.answers[-1])}", before)
