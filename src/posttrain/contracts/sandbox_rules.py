"""The contract of a sandbox: it runs, limits, isolates and compares, and says honestly how a run ended.

Rules are tables: what to run, and what must hold of the result. A program that cannot be run as asked (an
unknown language, impossible limits) gets a result that is not OK or an `InputError`, never another
exception.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from posttrain.protocols import Case, Limits, Program, RunResult, Status

QUICK = Limits(
    cpu_seconds=2.0, wall_seconds=6.0, memory_bytes=256 * 2**20, output_bytes=4096, disk_bytes=4 * 2**20,
)  # fmt: skip
HASTY = replace(QUICK, cpu_seconds=0.5)
SLEEPY = replace(QUICK, wall_seconds=0.7)
SEVERAL = replace(QUICK, num_processes=8)
LATE: tuple[Status, ...] = ("CPU_TIMEOUT", "WALL_TIMEOUT")
BYTES = bytes(range(256))


@dataclass(frozen=True, slots=True)
class Run:
    """A rule about one run in a fresh box."""

    rule: str
    program: Program
    holds: Callable[[RunResult], bool]
    limits: Limits = QUICK


@dataclass(frozen=True, slots=True)
class Judged:
    """A rule about one test: the statuses that each case may have."""

    rule: str
    source: str
    cases: tuple[Case, ...]
    statuses: tuple[tuple[Status, ...], ...]
    limits: Limits = field(default=QUICK)


def python(source: str, stdin: bytes = b"", **more: object) -> Program:
    """Return a Python program."""
    return Program("python", source, stdin=stdin, **more)  # type: ignore[arg-type]


def printed(text: bytes) -> Callable[[RunResult], bool]:
    """Return the rule that a run is OK and printed exactly this."""
    return lambda result: (result.status, result.exit_code, result.stdout) == ("OK", 0, text)


def ends(*statuses: Status) -> Callable[[RunResult], bool]:
    """Return the rule that a run ends with one of these statuses."""
    return lambda result: result.status in statuses


def is_refused(result: RunResult) -> bool:
    """Tell whether something that cannot be run was not run."""
    return result.status != "OK" and result.stdout == b""


RUNS = (
    Run("output is returned", python("print(6 * 7)"), printed(b"42\n")),
    Run(
        "output and errors are kept apart",
        python("import sys; print('out'); print('err', file=sys.stderr)"),
        lambda r: (r.stdout, r.stderr) == (b"out\n", b"err\n"),
    ),
    Run("output may be any bytes", python("import os; os.write(1, bytes(range(256)))"), printed(BYTES)),
    Run(
        "an exit code is told and is not OK",
        python("print('x'); raise SystemExit(3)"),
        lambda r: (r.status, r.exit_code, r.stdout) == ("RUNTIME_ERROR", 3, b"x\n"),
    ),
    Run(
        "an exception is shown and is not OK",
        python("1 / 0"),
        lambda r: r.status == "RUNTIME_ERROR" and b"ZeroDivisionError" in r.stderr,
    ),
    Run(
        "a death by signal is not OK",
        python("import os; os.kill(os.getpid(), 9)"),
        lambda r: r.status not in ("OK", "INFRA") and r.exit_code != 0,
    ),
    Run("a syntax error is not OK", python("if:"), ends("COMPILE_ERROR", "RUNTIME_ERROR")),
    Run(
        "input is fed, whatever its bytes",
        python("import os; os.write(1, os.read(0, 999)[::-1])", stdin=BYTES),
        printed(BYTES[::-1]),
    ),
    Run("input has an end", python("import sys; print(len(sys.stdin.buffer.read()))"), printed(b"0\n")),
    Run(
        "much input is fed whole",
        python("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * 2**20),
        printed(b"1048576\n"),
    ),
    Run("input may stay unread", python("print(1)", stdin=b"x" * 2**20), printed(b"1\n")),
    Run(
        "arguments are passed on",
        python("import sys; print(sys.argv[1:])", arguments=("a b", "é", "")),
        printed("['a b', 'é', '']\n".encode()),
    ),
    Run(
        "files go in",
        python("import os; os.write(1, open('a/b.bin', 'rb').read())", files={"a/b.bin": BYTES}),
        printed(BYTES),
    ),
    Run(
        "files come out, and only those asked for that are there",
        python("for n in 'xyz': open(n, 'wb').write(n.encode() * 2)", collect=("x", "y", "missing")),
        lambda r: r.status == "OK" and dict(r.files) == {"x": b"xx", "y": b"yy"},
    ),
    Run(
        "only regular files come out",
        python(
            "import os; os.symlink('/etc/hostname', 'a'); os.symlink('/dev/zero', 'b'); os.mkdir('d')",
            collect=("a", "b", "d"),
        ),
        lambda r: not r.files and r.status != "INFRA",
    ),
    Run(
        "output beyond the limit is cut and marked",
        python("print('x' * 6000)"),
        lambda r: r.truncated and 0 < len(r.stdout) <= QUICK.output_bytes and r.status in ("OK", "OUTPUT"),
    ),
    Run(
        "a flood of output ends the run",
        python("while True: print('x' * 1000)"),
        lambda r: r.truncated and len(r.stdout) <= QUICK.output_bytes and r.status in ("OUTPUT", *LATE),
    ),
    Run("an endless loop is a time-out", python("while True: pass"), ends(*LATE), HASTY),
    Run("sleeping is a time-out", python("import time; time.sleep(60)"), ends("WALL_TIMEOUT"), SLEEPY),
    Run(
        "what was printed before a time-out is kept",
        python("import time; print('before', flush=True); time.sleep(60)"),
        lambda r: r.status == "WALL_TIMEOUT" and r.stdout == b"before\n",
        SLEEPY,
    ),
    Run(
        "memory is limited",
        python("hold = bytearray(2 * 10 ** 9); print('x')"),
        lambda r: r.status in ("MEMORY", "RUNTIME_ERROR") and r.stdout == b"",
    ),
    Run(
        "disk is limited",
        python("with open('f', 'wb') as f:\n    for _ in range(64): f.write(bytes(2 ** 20))\nprint('x')"),
        lambda r: r.status in ("DISK", "RUNTIME_ERROR") and r.stdout == b"",
    ),
    Run("a shell runs", Program("shell", "cat | tr a b; exit 0", stdin=b"aa"), printed(b"bb"), SEVERAL),
    Run(
        "a command that does not exist is not OK",
        Program("command", arguments=("/no/such/program",)),
        lambda r: r.status not in ("OK", "INFRA"),
        SEVERAL,
    ),
    Run("an unknown language is refused", Program("klingon", "print(1)"), is_refused),
    Run("an empty command is refused", Program("command"), is_refused, SEVERAL),
    Run("limits below nothing are refused", python("print(1)"), is_refused, replace(QUICK, cpu_seconds=-1.0)),
    Run(
        "limits that are no numbers are refused",
        python("print(1)"),
        is_refused,
        replace(QUICK, wall_seconds=float("nan")),
    ),
    Run(
        "files beyond the disk limit are refused",
        python("print(1)", files={"big": bytes(8 * 2**20)}),
        is_refused,
    ),
    Run("a file name that leaves the box is refused", python("", files={"../left": b""}), is_refused),
    Run("an absolute file name is refused", python("", files={"/tmp/left": b""}), is_refused),
    Run("a file name with a NUL is refused", python("", files={"a\0b": b""}), is_refused),
)  # fmt: skip

WRITE = python("open('left.txt', 'w').write('here'); x = 41")
READ = python("print(open('left.txt').read())")
FAILED: tuple[Status, ...] = ("WRONG", "RUNTIME_ERROR", "OUTPUT", "MEMORY", "TAMPERED", *LATE)
RIGHT: tuple[Status, ...] = ("OK",)
WRONG: tuple[Status, ...] = ("WRONG",)
ECHO = "def f(x):\n    return x\n"

TESTS = (
    Judged(
        "cases are compared in order",
        "def f(x):\n    return 2 * x\n",
        (Case(8, "f", (4,)), Case("aa", "f", (), {"x": "a"}), Case(9, "f", (4,))),
        (RIGHT, RIGHT, WRONG),
    ),
    Judged(
        "plain data survives both ways",
        ECHO,
        tuple(
            Case(value, "f", (value,))
            for value in (None, True, 10**40, 1.5, "é\0", b"\xff", [1, [2]], (1, 2), {1: "a"}, {1, 2})
        ),
        (RIGHT,) * 10,
    ),
    Judged(
        "types are compared",
        "def f(x):\n    return {1: True, 2: 1.0, 3: (1,), 4: '1', 5: None}[x]\n",
        tuple(Case(expected, "f", (at,)) for at, expected in enumerate((1, 1, [1], 1, False), 1)),
        (WRONG,) * 5,
    ),
    Judged(
        "tolerance is given where asked for, and not for what is no number",
        "def f(x):\n    return {1: 0.1 + 0.2, 2: 0.30001, 3: float('nan')}[x]\n",
        tuple(Case(0.3, "f", (at,), comparator="float:1e-6") for at in (1, 2, 3)),
        (RIGHT, WRONG, WRONG),
    ),
    Judged(
        "a failing case fails alone",
        "import os\ndef f(x):\n    if x == 1: raise ValueError(x)\n    if x == 2: os._exit(0)\n"
        "    if x == 3: raise SystemExit(0)\n    return x\n",
        tuple(Case(at, "f", (at,)) for at in range(5)),
        (RIGHT, FAILED, FAILED, FAILED, RIGHT),
    ),
    Judged(
        "a case that does not end fails alone",
        "import time\ndef f(x):\n    while x == 1: pass\n    if x == 2: time.sleep(60)\n    return x\n",
        tuple(Case(at, "f", (at,)) for at in range(4)),
        (RIGHT, LATE, LATE, RIGHT),
        replace(HASTY, wall_seconds=2.0),
    ),
    Judged(
        "what cannot be compared is not OK",
        "def f(x):\n    a = []\n    a.append(a)\n"
        "    return {0: a, 1: 'x' * 10 ** 8, 2: object(), 3: iter([1]), 4: f}[x]\n",
        tuple(Case([1], "f", (at,)) for at in range(5)),
        (FAILED,) * 5,
    ),
    Judged(
        "an object that says it is equal is not OK",
        "class A(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\n"
        "def f(x):\n    return A()\n",
        (Case(1, "f", (1,)),),
        (FAILED,),
    ),
    Judged("a missing function is not OK", "g = 1\n", (Case(1, "f", (1,)),), (FAILED,)),
    Judged(
        "input and output are compared",
        "print(2 * int(input()))",
        tuple(
            Case(expected, stdin=stdin, comparator="lines")
            for expected, stdin in (("8\n", b"4\n"), ("9\n", b"4\n"), ("0\n", b"x\n"))
        ),
        (RIGHT, WRONG, FAILED),
    ),
)  # fmt: skip
