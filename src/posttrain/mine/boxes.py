"""Running a function on snippets in boxes: twice, with different hash seeds, and what both agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from posttrain.errors import RunFailed
from posttrain.mine.examples import Snippet
from posttrain.protocols import Limits, Program, Sandbox
from posttrain.sandbox import plain
from posttrain.sandbox.verdict import compare

LIMITS = Limits(
    cpu_seconds=12.0, wall_seconds=60.0, memory_bytes=256 * 2**20, output_bytes=8 * 2**20, num_processes=2
)
MAX_ENDS = 5
"""Snippets that may end their process; the rest goes on in a fresh one."""
OTHER_SEED = "7"
_RESTART = f"""
import os, sys
os.execve(sys.executable, [sys.executable, "surveyor.py"], {{**os.environ, "PYTHONHASHSEED": "{OTHER_SEED}"}})
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a snippet ended: a value, an exception (its classes, closest first), or a reason against it."""

    value: Any = None
    text: str = ""
    kind: str = ""
    raised: tuple[str, ...] = ()
    problem: str = ""


async def survey(sandbox: Sandbox, source: str, snippets: Sequence[Snippet]) -> list[Outcome]:
    """Return how each snippet ends after a program's source; what two processes disagree on is a problem."""
    first = await _ask(sandbox, source, snippets, restarts=False)
    second = await _ask(sandbox, source, snippets, restarts=True)
    return [_outcome(one, other) for one, other in zip(first, second, strict=True)]


async def _ask(sandbox: Sandbox, source: str, snippets: Sequence[Snippet], *, restarts: bool) -> list[bytes]:
    """Return one line for each snippet, empty where it ended its process or was never reached."""
    lines: list[bytes] = []
    for _ in range(MAX_ENDS):
        rest = snippets[len(lines) :]
        given = plain.dumps((source, [(snippet.setup, snippet.expression) for snippet in rest]))
        result = await sandbox.run(_program(given, restarts=restarts), LIMITS)
        if result.status == "INFRA":
            raise RunFailed(f"the sandbox gave no answer: {result.stderr.decode('utf-8', 'replace')[:200]}")
        lines += result.stdout.split(b"\n")[:-1]
        if len(lines) >= len(snippets):
            break
        lines.append(b"")
    return (lines + [b""] * len(snippets))[: len(snippets)]


def _program(given: bytes, *, restarts: bool) -> Program:
    package = resources.files("posttrain")
    files = dict.fromkeys(("posttrain/__init__.py", "posttrain/sandbox/__init__.py"), b"")
    files["posttrain/sandbox/plain.py"] = package.joinpath("sandbox", "plain.py").read_bytes()
    surveyor = package.joinpath("mine", "surveyor.py").read_bytes()
    files |= {"snippets": given, "surveyor.py": surveyor}
    return Program("python", _RESTART if restarts else surveyor.decode("utf-8"), files=files)


def _outcome(one: bytes, other: bytes) -> Outcome:
    if not one or not other:
        return Outcome(problem="ends its process")
    try:
        first, second = plain.loads(one), plain.loads(other)
        kind, *rest = first
        if kind == "value":
            # The printed text may hold addresses; the value decides.
            if second[0] != "value" or not _same(rest[0], second[1]):
                return Outcome(problem="not deterministic")
            return Outcome(plain.loads(rest[0]), rest[1], rest[2])
        if kind == "raised" and second[:2] == first[:2]:
            return Outcome(text=rest[1], raised=tuple(rest[0]))
    except (ValueError, TypeError, IndexError):
        return Outcome(problem="its answer cannot be read")
    return Outcome(problem=kind if kind == second[0] and kind != "raised" else "not deterministic")


def _same(one: bytes, other: bytes) -> bool:
    """Tell whether two lines stand for the same value; the order of sets and dictionaries does not count."""
    return one == other or compare.canonical(plain.loads(one)) == compare.canonical(plain.loads(other))
