"""What an attack is, how it may end, and the words its program speaks.

A program tries something and says so: `ESCAPED …` where it worked, `TRIED` when it tried everything. Names
between two @ stand for things outside the box (see outside.py). An attack fails, as it should, only if its
program really came to try it, nothing outside changed, no secret came back and the verdict is honest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from posttrain.protocols import Case, Limits, Program, Status

Kind = Literal["resources", "confidentiality", "integrity", "forgery", "isolation"]

QUICK = Limits(
    cpu_seconds=1.0, wall_seconds=4.0, memory_bytes=192 * 2**20, output_bytes=64 * 2**10,
    disk_bytes=8 * 2**20, num_processes=1, num_files=64,
)  # fmt: skip
SEVERAL = replace(QUICK, num_processes=8)
SLEEPING = replace(QUICK, wall_seconds=0.7)

TRIED = frozenset[Status]({"OK", "RUNTIME_ERROR", "SECURITY"})
"""How a program may end that only probes walls: by itself, or killed by the filter of system calls."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: `cases` has the status of each case, `texts` everything that could carry a secret."""

    status: Status
    cases: tuple[Status, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    peak_memory_bytes: int = 0
    seconds: float = 0.0

    @property
    def was_too_busy(self) -> bool:
        """Tell whether there is no verdict because of other work on the machine, as the sandbox says."""
        return "INFRA" in (self.status, *self.cases) and b"too busy" in self.texts

    @property
    def texts(self) -> bytes:
        """Return everything that came back, in one piece."""
        details = "\n".join(self.details).encode(errors="surrogatepass")
        names = "\n".join(self.files).encode(errors="surrogatepass")
        return b"\n".join((self.stdout, self.stderr, details, names, *self.files.values()))


def always(outcome: Outcome) -> bool:
    """Accept every outcome that keeps the general rules."""
    return True


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt: a program to run, or to test with `cases`, after the programs in `before`.

    `ends` are the statuses it may end with; `may_pass` the positions of cases that may pass. `finishes` says
    that its program must reach its last word unless it was killed for what it tried. `bare` attacks succeed,
    and do no harm, without any sandbox: so a test can show that they have teeth.
    """

    name: str
    kind: Kind
    program: Program
    cases: tuple[Case, ...] = ()
    limits: Limits = QUICK
    before: tuple[Program, ...] = ()
    ends: frozenset[Status] = TRIED
    may_pass: tuple[int, ...] = ()
    finishes: bool = True
    bare: bool = False
    slow: bool = False
    seconds: float = 30.0
    holds: Callable[[Outcome], bool] = always

    def broken_rules(self, outcome: Outcome, secret: bytes) -> list[str]:
        """Name every rule that the outcome breaks; none where the attack failed."""
        passed = [at for at, status in enumerate(outcome.cases) if status == "OK" and at not in self.may_pass]
        tried = b"TRIED" in outcome.stdout or outcome.status == "SECURITY" or not self.finishes
        rules = {
            "an attack cannot get rid of its verdict": "INFRA" not in (outcome.status, *outcome.cases),
            "an attack ends as it should": bool(self.cases) or outcome.status in self.ends,
            "an attack wins no verdict": not passed and not (self.cases and outcome.status == "OK"),
            "nothing gives way": b"ESCAPED" not in outcome.texts,
            "no secret comes back": secret not in outcome.texts,
            "the attack was tried": bool(self.cases) or tried,
            "the run returns in time": outcome.seconds <= self.seconds,
            "the outcome is as it should be": self.holds(outcome),
        }
        return [rule for rule, holds in rules.items() if not holds]


TOOLS = """\
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)


def escaped(what):
    print("ESCAPED", what, flush=True)


def attempt(name, action):
    try:
        value = action()
    except BaseException as error:
        print("held", name, type(error).__name__, ascii(str(error))[:80], flush=True)
    else:
        escaped(f"{name}: {ascii(value)[:200]}") if value else print("held", name, flush=True)


def checked(result, *_):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def syscall(number, *arguments):
    return checked(libc.syscall(ctypes.c_long(number), *arguments))


def reads(path):
    with open(path, "rb") as file:
        return file.read(4096)


def writes(path):
    with open(path, "wb") as file:
        return file.write(b"changed")

"""
"""The beginning of every probing program: `attempt` reports an action that worked as an escape."""


def python(source: str, stdin: bytes = b"", collect: tuple[str, ...] = ()) -> Program:
    """Return a program that probes in the warm interpreter."""
    return Program("python", f"{TOOLS}\n{source}\nprint('TRIED', flush=True)\n", stdin=stdin, collect=collect)


def command(source: str, collect: tuple[str, ...] = ()) -> Program:
    """Return the same as a fresh interpreter, under the rules for commands."""
    text = f"{TOOLS}\n{source}\nprint('TRIED', flush=True)\n"
    return Program(
        "command", arguments=("@python@", "-I", "-S", "probe.py"), files={"probe.py": text.encode()},
        collect=collect,
    )  # fmt: skip


def shell(source: str, collect: tuple[str, ...] = ()) -> Program:
    """Return a shell script that says when it has tried everything."""
    return Program("shell", f"{source}\necho TRIED\n", collect=collect)


def probe(
    name: str, kind: Kind, source: str, *, bare: bool = False, **settings: object
) -> tuple[Attack, ...]:
    """Return one attack in the warm interpreter and the same one as a command."""
    warm = Attack(name, kind, python(source), bare=bare)
    cold = Attack(f"{name}, as a command", kind, command(source), limits=SEVERAL)
    return tuple(replace(attack, **settings) for attack in (warm, cold))  # type: ignore[arg-type]
