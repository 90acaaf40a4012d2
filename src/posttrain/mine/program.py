"""`posttrain mine`: from a package's name to a directory of proven problems, and a report on the rest."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from posttrain.domains.mined_rows import REPORT, TASKS, Mined, Source, split_of
from posttrain.errors import InputError
from posttrain.mine import package as packages
from posttrain.mine import sources as reading
from posttrain.mine.craft import Left, craft
from posttrain.mine.prove import Proof, prove
from posttrain.mine.sources import Found, Sources
from posttrain.protocols import Sandbox
from posttrain.sandbox import Local
from posttrain.types import JSON

AT_ONCE = 4
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that one function may take, and all of them together."""

    function_seconds: float = 60.0
    seconds: float = 1_800.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one function: `mined` with its proof, or the reason why it was left."""

    where: str
    mined: Mined | None = None
    proof: Proof | None = None
    reason: str = ""
    detail: str = ""

    def to_json(self) -> dict[str, JSON]:
        """Return the function's entry in the report."""
        if self.mined is None or self.proof is None:
            return {"function": self.where, "taken": False, "reason": self.reason, "detail": self.detail}
        problem = self.mined.problem
        return {
            "function": self.where,
            "taken": True,
            "split": self.mined.split,
            "level": self.mined.level,
            "visible": len(problem.visible),
            "hidden": len(problem.hidden),
            **self.proof.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All functions of a package, each taken or left with a reason."""

    package: packages.Package
    entries: tuple[Entry, ...]
    unread: dict[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> list[Mined]:
        return [entry.mined for entry in self.entries if entry.mined is not None]

    def reasons(self) -> dict[str, int]:
        """Return how many functions were left for each reason, the most frequent first."""
        return dict(Counter(entry.reason for entry in self.entries if entry.mined is None).most_common())

    def to_json(self) -> dict[str, JSON]:
        """Return the content of `report.json`."""
        return {
            "package": self.package.name,
            "version": self.package.version,
            "licence": self.package.licence,
            "taken": len(self.taken),
            "left": dict(self.reasons()),
            "unread": dict(self.unread),
            "functions": [entry.to_json() for entry in self.entries],
        }

    def text(self) -> str:
        """Return a summary for people."""
        taken = self.taken
        held_out = sum(mined.split == "eval" for mined in taken)
        levels = Counter(mined.level for mined in taken)
        with_doctest = len(self.entries) - self.reasons().get(NO_DOCTEST, 0)
        lines = [
            f"{self.package.name} {self.package.version} (licence: {self.package.licence}): "
            f"{len(taken)} of {with_doctest} functions with doctests taken, {held_out} of them held out",
            "levels " + ", ".join(f"{level}: {levels[level]}" for level in sorted(levels)),
            *(f"  left {count:4}  {reason}" for reason, count in self.reasons().items()),
            *(f"  not read  {name}: {why}" for name, why in self.unread.items()),
        ]
        return "\n".join(lines)


NO_DOCTEST = "no doctest"
LATE = "took too long"
OUT_OF_TIME = "not reached in time"


def run(name: str, out: Path, limits: Limits, progress: Progress) -> Report:
    """Mine a package into a new directory and return the report; nothing is left of a run that is cut off.

    Raises InputError for an unknown package, one without usable doctests, or a directory with content.
    """
    _check(out)
    found = reading.read(packages.find(name))
    functions = [f for f in reading.functions(found) if _is_public(f)]
    if not any(">>>" in function.docstring for function in functions):
        raise InputError(
            f"package {name!r}: none of its {len(functions)} public functions has a doctest "
            "(an example after >>> in its docstring). Choose another package."
        )
    report = asyncio.run(_mine(found, functions, limits, progress))
    if not report.taken:
        raise InputError(
            f"package {name!r}: no function could be taken ({_listed(report.reasons())}). "
            "Choose another package."
        )
    _write(report, out)
    return report


def _listed(reasons: dict[str, int]) -> str:
    return "; ".join(f"{reason}: {count}" for reason, count in reasons.items())


def _is_public(function: Found) -> bool:
    parts = function.module.name.split(".")
    if any(part.startswith("test") or part in ("conftest", "_vendor") for part in parts):
        return False
    return not function.name.startswith("_")


def _check(out: Path) -> None:
    """Raise InputError where the directory cannot be written or holds something already."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise InputError(
            f"--out {out}: exists and is not an empty directory. Choose another one, or empty it."
        )
    parent = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not os.access(parent, os.W_OK):
        raise InputError(f"--out {out}: {parent} cannot be written. Choose another directory.")


async def _mine(found: Sources, functions: Sequence[Found], limits: Limits, progress: Progress) -> Report:
    end = time.monotonic() + limits.seconds
    places = asyncio.Semaphore(AT_ONCE)
    done = Counter[bool]()
    num_asked = sum(">>>" in function.docstring for function in functions)

    async def one(function: Found) -> Entry:
        if ">>>" not in function.docstring:
            return Entry(function.where, reason=NO_DOCTEST)
        async with places:
            left = end - time.monotonic()
            entry = (
                await _within(sandbox, found, function, min(left, limits.function_seconds))
                if left > 0
                else Entry(function.where, reason=OUT_OF_TIME)
            )
        done[entry.mined is not None] += 1
        why = "taken" if entry.mined else f"left: {entry.reason}"
        progress(f"[{done.total()}/{num_asked}] {function.where}  {why}")
        return entry

    sandbox = await Local().open()
    try:
        entries = await asyncio.gather(*map(one, functions))
    finally:
        await sandbox.close()
    return Report(found.package, tuple(entries), dict(found.unread))


async def _within(sandbox: Sandbox, found: Sources, function: Found, seconds: float) -> Entry:
    try:
        return await asyncio.wait_for(_one(sandbox, found, function), seconds)
    except TimeoutError:
        return Entry(function.where, reason=LATE, detail=f"more than {seconds:.0f} s")


async def _one(sandbox: Sandbox, found: Sources, function: Found) -> Entry:
    """Return the entry of one function."""
    try:
        problem, gold = await craft(sandbox, found, function)
        problem, proof = await prove(sandbox, problem)
    except Left as left:
        return Entry(function.where, reason=left.reason, detail=left.detail)
    package = found.package
    source = Source(
        package.name, package.version, package.licence, function.module.name, function.node.lineno
    )
    mined = Mined(problem, split_of(function.name), gold.level, source)
    return Entry(function.where, mined, proof)


def _write(report: Report, out: Path) -> None:
    """Write the directory beside its place and move it there when it is whole."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        rows = (json.dumps(mined.to_row(), ensure_ascii=True) for mined in report.taken)
        (partial / TASKS).write_text("".join(f"{row}\n" for row in rows), "ascii")
        (partial / REPORT).write_text(json.dumps(report.to_json(), indent=1) + "\n", "ascii")
        partial.chmod(0o755)
        if out.is_dir():
            out.rmdir()
        partial.rename(out)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
