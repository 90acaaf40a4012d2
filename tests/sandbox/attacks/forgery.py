"""Attacks on verdicts: programs that solve nothing and try to be paid all the same."""
# ruff: noqa: E501 (programs)

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from posttrain.protocols import Case, Program

from .attack import QUICK, Attack

KIND = "forgery"
SQUARES = tuple(Case(at * at + 1, "f", (at,)) for at in (3, 5, 8))
"""What a right `f` gives: nothing that a constant, an echo or a guess would."""
# ruff: noqa: E501 (programs)


def forged(name: str, source: str, cases: tuple[Case, ...] = SQUARES, **settings: Any) -> Attack:
    """Return an attack whose program is to be paid without a solution."""
    return replace(Attack(f"{name}", KIND, Program("python", source), cases), **settings)


EXITS = tuple(
    forged(f"exit by {name}", source)
    for name, source in {
        "SystemExit in a call": "def f(x):\n    raise SystemExit(0)\n",
        "sys.exit at the start": "import sys\nsys.exit(0)\n",
        "os._exit at the start": "import os\nos._exit(0)\n",
        "os._exit in a call": "import os\ndef f(x):\n    os._exit(0)\n",
        "a signal": "import os\ndef f(x):\n    os.kill(os.getpid(), 9)\n",
        "abort": "import os\ndef f(x):\n    os.abort()\n",
        "an exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x):\n    raise SystemExit\n",
        "the C library": "import ctypes\ndef f(x):\n    ctypes.CDLL(None).exit(0)\n",
        "a crash": "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n",
        "a thread": "import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\n"
                    "def f(x):\n    return 0\n",
        "KeyboardInterrupt": "def f(x):\n    raise KeyboardInterrupt\n",
        "GeneratorExit": "def f(x):\n    raise GeneratorExit\n",
        "StopIteration": "def f(x):\n    raise StopIteration(x * x + 0)\n",
        "a missing function": "g = 1\n",
        "a function that is none": "f = 10\n",
    }.items()
)  # fmt: skip

LIARS = tuple(
    forged(f"a liar: {name}", source)
    for name, source in {
        "equal to all": "class A:\n    def __eq__(s, o): return True\n    __hash__ = None\ndef f(x):\n    return A()\n",
        "a number equal to all": "class A(int):\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\n"
                                 "def f(x):\n    return A(0)\n",
        "a text equal to all": "class A(str):\n    def __eq__(s, o): return True\n    __hash__ = str.__hash__\n"
                               "def f(x):\n    return A('x')\n",
        "a list equal to all": "class A(list):\n    def __eq__(s, o): return True\ndef f(x):\n    return A([1])\n",
        "a float that is near all": "class A(float):\n    def __sub__(s, o): return 0.0\n    __rsub__ = __sub__\n"
                                    "    def __abs__(s): return 0.0\ndef f(x):\n    return A(0)\n",
        "another class": "class A:\n    @property\n    def __class__(s): return int\n    def __index__(s): return 1\n"
                         "    def __int__(s): return 1\ndef f(x):\n    return A()\n",
        "another text": "class A:\n    def __repr__(s): return '10'\n    __str__ = __repr__\ndef f(x):\n    return A()\n",
        "a metaclass equal to all": "class M(type):\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\n"
                                    "    def __instancecheck__(s, o): return True\nclass A(metaclass=M): pass\n"
                                    "def f(x):\n    return A\n",
        "a dictionary of its own": "class A(dict):\n    def items(s): return [(1, 1)]\n    def __eq__(s, o): return True\n"
                                   "def f(x):\n    return A()\n",
        "a proxy": "class A:\n    def __getattr__(s, n): return A()\n    def __call__(s, *a, **k): return True\n"
                   "    def __eq__(s, o): return True\n    def __bool__(s): return True\ndef f(x):\n    return A()\n",
        "reduced to code": "class A:\n    def __reduce__(s): return (eval, ('10',))\n"
                           "    def __reduce_ex__(s, p): return (eval, ('10',))\ndef f(x):\n    return A()\n",
        "pickled code": "import pickle\nclass A:\n    def __reduce__(s): return (eval, ('print(1)',))\n"
                        "def f(x):\n    return pickle.dumps(A())\n",
        "a generator": "def f(x):\n    yield x * x + 1\n",
        "a coroutine": "async def f(x):\n    return x * x + 1\n",
        "a function": "def f(x):\n    return lambda *a: True\n",
        "a mock": "from unittest.mock import MagicMock, ANY\ndef f(x):\n    return ANY\n",
        "not implemented": "def f(x):\n    return NotImplemented\n",
        "an exception with a lie": "class E(Exception):\n    def __str__(s): return '10'\n    def __eq__(s, o): return True\n"
                                   "def f(x):\n    raise E(10)\n",
        "an exception that fails to be shown": "class E(Exception):\n    def __str__(s): raise E()\n    __repr__ = __str__\n"
                                               "def f(x):\n    raise E\n",
    }.items()
)  # fmt: skip

ANSWERS = (
    "true", "null", "1", "{}", "[]", '"10"', "OK", "PASSED", '{"status": "OK"}', '["OK", 10]', '{"ok": true}',
    "[" * 100_000, '{"a":' * 50_000, "9" * 200_000, "1e999999999", "NaN", "Infinity", "\0" * 100, "\ud83d",
)  # fmt: skip
PIPES = """
import os, stat
def flood(text):
    data = text.encode(errors="surrogatepass") + b"\\n"
    for number in range(3, 64):
        try: found = os.fstat(number)
        except OSError: continue
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
            try: os.write(number, data)
            except OSError: pass
"""

LINES = (
    *(forged(f"an answer written by hand: {text[:12]!r}", f"{PIPES}\ndef f(x):\n    flood({text!r})\n    os._exit(0)\n")
      for text in ANSWERS),
    forged("answers before the questions", f"{PIPES}\nfor _ in range(9): flood('[10]'), flood('10'), flood('true')\n"
           "def f(x):\n    return 0\n"),
    forged("the same answer for every case", f"{PIPES}\ndef f(x):\n    for _ in range(5): flood('true')\n    return 0\n"),
    forged("answers from a thread", f"{PIPES}\nimport threading, time\ndef go():\n    while True:\n"
           "        flood('10'); time.sleep(0.001)\nthreading.Thread(target=go, daemon=True).start()\n"
           "def f(x):\n    return 0\n"),
    forged("half an answer", f"{PIPES}\ndef f(x):\n    flood('[1')\n    import time\n    time.sleep(60)\n",
           limits=replace(QUICK, wall_seconds=0.5)),
    forged("an endless answer", f"{PIPES}\ndef f(x):\n    while True: flood('x' * 60000)\n",
           limits=replace(QUICK, cpu_seconds=0.5, wall_seconds=2.0)),
    forged("the answer's way closed", "import os\ndef f(x):\n    os.closerange(0, 64)\n    return 0\n"),
    forged("the answer's way moved", "import os\ndef f(x):\n    r, w = os.pipe()\n"
           "    for n in range(3, 32):\n        try: os.dup2(w, n)\n        except OSError: pass\n    return 0\n",
           limits=replace(QUICK, wall_seconds=0.5)),
    forged("a question read ahead", f"{PIPES}\ndef f(x):\n    for n in range(3, 64):\n"
           "        try:\n            os.set_blocking(n, False); os.read(n, 65536)\n        except OSError: pass\n"
           "    return 0\n", limits=replace(QUICK, wall_seconds=0.5)),
)  # fmt: skip

VISIBLE = (
    forged("visible answers learnt by heart", "def f(x):\n    return {3: 10, 5: 26}.get(x, 0)\n", may_pass=(0, 1)),
    forged("an echo of the arguments", "def f(*a, **k):\n    return a[0] if a else k\n"),
    forged("a constant", "def f(x):\n    return 10\n", may_pass=(0,)),
    forged("state carried from case to case", "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n",
           cases=(Case(1, "f", (1,)), Case(1, "f", (1,)), Case(1, "f", (1,))), may_pass=(0,)),
    forged("arguments changed for later cases", "def f(x):\n    x.clear()\n    return x\n",
           cases=(Case([1], "f", ([1],)), Case([1, 2], "f", ([1, 2],)))),
)  # fmt: skip


def returns(source: str, expected: Any, comparator: str = "exact") -> Attack:
    """Return an attack that gives nearly the expected value."""
    return forged(f"{source} for {expected!r} by {comparator}", f"def f():\n    return {source}\n",
                  cases=(Case(expected, "f", comparator=comparator),))  # fmt: skip


EDGES = (
    returns("True", 1), returns("1", True), returns("1.0", 1), returns("1", 1.0), returns("0", False),
    returns("None", False), returns("'1'", 1), returns("b'a'", "a"), returns("(1, 2)", [1, 2]),
    returns("[1, 2]", (1, 2)), returns("{1}", frozenset({1})), returns("{1: True}", {1: 1}),
    returns("{1: 'a', 1.5: 'b'}", {1: "a"}), returns("{'1': 'a'}", {1: "a"}), returns("[[True]]", [[1]]),
    returns("1 + 0j", 1), returns("float('nan')", 0.0, "float:1e-6"),
    returns("float('nan')", 1e308, "float:1e-6"), returns("float('inf')", 1.0, "float:1e-6"),
    returns("float('inf')", -math.inf, "float:1e-6"), returns("1e400", 10.0**308, "float:1e-6"),
    returns("'1.0'", 1.0, "float:1e-6"), returns("True", 1.0, "float:1e-6"), returns("1.1", 1.0, "float:1e-6"),
    returns("[1.0, float('nan')]", [1.0, 2.0], "float:1e-6"), returns("[1.0]", [1.0, 2.0], "float:1e-6"),
    returns("10 ** 400", 1.0, "float:1e-6"), returns("[2, 1]", [1, 2]), returns("[1, 1, 2]", [1, 2, 2], "unordered"),
    returns("[1]", [1, 1], "unordered"), returns("[True, 2]", [1, 2], "unordered"), returns("{}", [], "unordered"),
    returns("''", None), returns("'abc '", "abc"), returns("'a\\u0301'", "\u00e1"), returns("'\\ud800'", "?"),
    returns("{'type': 'tuple', 'items': [1, 2]}", (1, 2)), returns("{'__tuple__': [1, 2]}", (1, 2)),
    returns("['tuple', [1, 2]]", (1, 2)), returns("{'t': [1, 2]}", (1, 2)), returns("['t', 1, 2]", (1, 2)),
    returns("'10' * 5000", 10), returns("[None] * 3", [None] * 4),
)  # fmt: skip


def prints(name: str, source: str, comparator: str = "lines", **settings: Any) -> Attack:
    """Return an attack on tests by standard input and output; the right answer is the doubled number."""
    cases = (
        Case("14\n", stdin=b"7\n", comparator=comparator),
        Case("18\n", stdin=b"9\n", comparator=comparator),
    )
    return replace(forged(name, source, cases), **settings)


PRINTED = (
    prints("print every number", "print(*range(200))"), prints("print every number in lines", "print(*range(200), sep='\\n')"),
    prints("print nothing", ""), prints("print OK", "print('OK'); print('PASSED'); print('1 passed in 0.01s')"),
    prints("the right answer and more", "x = int(input()); print(2 * x); print(2 * x)"),
    prints("the right answer after another", "x = int(input()); print(0, 2 * x)"),
    prints("the right answer's beginning", "x = int(input()); print(str(2 * x)[:1])"),
    prints("the right answer as an error", "import sys; print(2 * int(input()), file=sys.stderr)"),
    prints("the right answer, then a crash", "print(2 * int(input()), flush=True); raise SystemExit(3)"),
    prints("the right answer, then a signal", "import os; print(2 * int(input()), flush=True); os.kill(os.getpid(), 9)"),
    prints("the right answer, then no end", "import time; print(2 * int(input()), flush=True); time.sleep(60)",
           limits=replace(QUICK, wall_seconds=0.5)),
    prints("the right answer and a NUL", "print(2 * int(input()), end='\\0\\n')"),
    prints("the right answer in other digits", "print(str(2 * int(input())).translate({48 + d: 0x660 + d for d in range(10)}))"),
    prints("the right number in another form", "print(float(2 * int(input())))"),
    prints("the right answer and a flood", "print(2 * int(input()))\nwhile True: print(' ' * 1000)"),
    prints("the first visible answer", "print(14)", may_pass=(0,)),
    prints("nothing, by tokens", "", "token"), prints("too many tokens", "print(2 * int(input()), 1)", "token"),
    prints("nan, by tokens", "print('nan')", "token"),
)  # fmt: skip

LOOPED = """
def check(candidate):
    import random
    generator = random.Random(7)
    for _ in range(20):
        x = generator.randrange(3, 1000)
        assert candidate(x) == x * x + 1
"""
SORTED = """
def check(candidate):
    for given in ([3, 1, 2], [5, 4], list(range(9, 0, -1))):
        before = list(given)
        assert candidate(given) == sorted(before) and given == before
"""
CHECKER = """
def check(question, expected, answer):
    return answer == question[0] ** 2 + 1
"""


def asserted(name: str, source: str, test: str = LOOPED) -> Attack:
    """Return an attack on test code that runs in a box of its own."""
    return forged(name, source, (Case({"test": test}, "f", comparator="asserts"),))


def checked(name: str, source: str) -> Attack:
    """Return an attack on a checker that runs in a box of its own."""
    return forged(name, source, (Case({"checker": CHECKER}, "f", (6,), comparator="custom"),))


WINNERS = {
    "equal to all": "class A:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n"
    "def f(x):\n    return A()\n",
    "a number equal to all": "class A(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\n"
    "def f(x):\n    return A()\n",
    "an exit": "import os\ndef f(x):\n    os._exit(0)\n",
    "an exit at the start": "import os\nos._exit(0)\ndef f(x):\n    return 1\n",
    "SystemExit": "def f(x):\n    raise SystemExit(0)\n",
    "an exception": "def f(x):\n    raise AssertionError('passed')\n",
    "an exception at the start": "def f(x):\n    return 1\nraise AssertionError('passed')\n",
    "another check": "def check(candidate):\n    return True\ndef f(x):\n    return True\n",
    "printing": "print('passed')\ndef f(x):\n    print('passed')\n    return None\n",
    "not an answer at all": "def f(x):\n    return NotImplemented\n",
    "nan": "def f(x):\n    return float('nan')\n",
    "a different answer each time": "import itertools\nc = itertools.count()\ndef f(x):\n    return next(c)\n",
    "chance": "import os\ndef f(x):\n    return os.urandom(4)\n",
    "a giant": "def f(x):\n    return [0] * 10 ** 6\n",
    "a list that contains itself": "def f(x):\n    a = []\n    a.append(a)\n    return a\n",
    "no end": "def f(x):\n    while True: pass\n",
    "a generator": "def f(x):\n    yield True\n",
    "a class": "class f:\n    def __init__(s, *a): pass\n    def __eq__(s, o): return True\n",
    "a callable that answers to all names": "class A:\n    def __getattr__(s, n): return s\n"
    "    def __call__(s, *a, **k): return True\nf = A()\n",
    "nothing defined": "",
}
ASSERTED = (
    *(asserted(f"win over assertions by {name}", source) for name, source in WINNERS.items()),
    *(checked(f"win over a checker by {name}", source) for name, source in WINNERS.items()),
    asserted("win by emptying the arguments", "def f(x):\n    x.clear()\n    return x\n", SORTED),
    asserted("win by sorting nothing", "def f(x):\n    return x\n", SORTED),
)

ATTACKS = (*EXITS, *LIARS, *LINES, *VISIBLE, *EDGES, *PRINTED, *ASSERTED)
