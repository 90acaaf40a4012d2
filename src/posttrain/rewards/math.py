"""Whether two mathematical answers are equal, decided by math-verify in a box of its own.

Parsing and simplifying hostile LaTeX can take any time and memory, so it never happens in the trainer.
One fresh box judges one answer: no answer can touch the verdict on another.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Literal

from posttrain.errors import InputError, RunFailed
from posttrain.protocols import Limits, Program, RunResult, Sandbox
from posttrain.rewards.match import exact, extract_answer
from posttrain.rewards.math_packages import packed
from posttrain.types import Reward

LIMITS = Limits(cpu_seconds=10.0, wall_seconds=60.0, memory_bytes=2**30)
"""What one verdict may use; loading the packages takes about 1 s of it."""
MAX_CHARACTERS = 2_000
"""Longer answers are wrong: no gold answer comes near."""

_FLAGS = {
    "CPU_TIMEOUT": "math time-out",
    "WALL_TIMEOUT": "math time-out",
    "MEMORY": "math memory",
    "OUTPUT": "math output",
    "DISK": "math output",
    "SECURITY": "security",
    "TAMPERED": "tampered",
}
_PROGRAM = r"""
import json, logging, re, sys

sys.path.insert(0, "packages.zip")
logging.disable(logging.CRITICAL)
given = json.load(sys.stdin)
from math_verify import parse, verify


def read(text):
    return parse("\\boxed{" + text + "}", parsing_timeout=None)


gold = read(given["gold"])
print("gold" if gold else "no gold", flush=True)
texts = [given["answer"]]
if "=" not in given["gold"]:  # math-verify would take '4 = 3' for 3: each side without a letter must hold
    sides = given["answer"].split("=")[:-1]
    texts += [side for side in sides if not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", side))]
right = all((answer := read(text)) and verify(gold, answer, timeout_seconds=None) for text in texts)
print(json.dumps(bool(right)), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer equals the gold one, how that was found, and what was suspicious."""

    equal: bool
    by: Literal["exact", "form", "math"]
    flag: str = ""


async def judged(text: str, gold: str, sandbox: Sandbox, limits: Limits = LIMITS) -> Reward:
    """Return 1.0 if the final answer of a text equals the gold one as mathematics, else 0.0.

    Parts: `exact` (equal as text or number), `equal`. Only the last answer counts, as
    `match.extract_answer` finds it. Raises RunFailed where the sandbox has no verdict, InputError for a
    gold answer that math-verify cannot read.
    """
    found = await compared(extract_answer(text), gold, sandbox, limits)
    parts = {"exact": float(found.equal and found.by == "exact"), "equal": float(found.equal)}
    return Reward(float(found.equal), parts, (found.flag,) if found.flag else ())


async def compared(answer: str, gold: str, sandbox: Sandbox, limits: Limits = LIMITS) -> Verdict:
    """Return the verdict on one answer; equal texts and numbers need no box."""
    if len(answer) > MAX_CHARACTERS:
        return Verdict(False, "form", "long answer")
    if exact(answer, gold):
        return Verdict(True, "exact")
    if not answer.strip() or "\\boxed" in answer or not _balanced(answer):
        return Verdict(False, "form")
    archive = await asyncio.to_thread(packed)
    asked = json.dumps({"gold": _bare(gold), "answer": _bare(answer)}).encode()
    program = Program("python", _PROGRAM, files={"packages.zip": archive}, stdin=asked)
    return _read(await sandbox.run(program, limits), gold)


def _read(result: RunResult, gold: str) -> Verdict:
    """Return what a run says: before the gold answer is read, a failure is ours; afterwards the answer's."""
    lines = result.stdout.decode("ascii", "replace").split("\n")
    if result.status == "INFRA" or lines[0] not in ("gold", "no gold"):
        reason = result.stderr.decode("utf-8", "replace").strip()[-300:]
        raise RunFailed(f"no verdict on a mathematical answer: {result.status} {reason}".strip())
    if lines[0] == "no gold":
        raise InputError(
            f"math-verify cannot read the gold answer {gold!r:.200}. Correct the row, or use `exact`."
        )
    if result.status == "OK" and lines[1:2] in (["true"], ["false"]):
        return Verdict(lines[1] == "true", "math")
    return Verdict(False, "math", _FLAGS.get(result.status, "math crash"))


def _balanced(text: str) -> bool:
    """Tell whether braces match, so that nothing leaves the box that is put around the answer."""
    depth = 0
    for brace in re.findall(r"[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def _bare(text: str) -> str:
    """Return an answer without what announces mathematics: dollar signs and a final period."""
    text = text.strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    for left, right in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if len(text) > len(left + right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)].strip()
            return inner if left not in inner else text
    return text
