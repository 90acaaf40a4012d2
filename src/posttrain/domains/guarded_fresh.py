"""Fresh tests for each task and epoch: mutated inputs, with what the task's own solution answers to them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.errors import RunFailed
from posttrain.protocols import Case, Limits, Program, Sandbox
from posttrain.rewards.integrity.cases import key
from posttrain.rewards.integrity.mutate import mutants
from posttrain.sandbox import plain
from posttrain.sandbox.verdict.compare import VIEWS

LIMITS = Limits(cpu_seconds=10.0, wall_seconds=60.0, output_bytes=8 * 2**20)
TRIES = 3
"""Inputs tried for each test wanted; those that the solution refuses are left out."""
MAX_KEPT = 4_096
MAX_ANSWER = 20_000
SHARED = ("float", "isclose", "within", "unordered", "token", "lines", "exact")
"""Comparators that compare an answer with what another run has answered."""
DRIVER = """
import os, signal, sys
from pathlib import Path
from posttrain.sandbox import plain

class Late(BaseException): pass

def late(*_): raise Late

out = os.fdopen(os.dup(1), "wb", buffering=0)
sys.stdout = sys.stderr = open(os.devnull, "w")
signal.signal(signal.SIGVTALRM, late)
source, calls = plain.loads(Path("calls").read_bytes())
namespace = {"__name__": "__solution__"}
exec(compile(source, "main.py", "exec", dont_inherit=True), namespace)
for function, arguments, keywords in calls:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.5, 0.5)
    try:
        answer = namespace[function](*arguments, **keywords)
        line = plain.dumps(("value", plain.dumps(answer, iterators=True)))
    except (Exception, Late):
        line = plain.dumps(("none",))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    out.write(line + b"\\n")
"""


class Fresh:
    """Make fresh tests and keep those made last; equal keys give equal tests."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, asyncio.Task[tuple[Case, ...]]] = OrderedDict()

    async def cases(self, problem: Problem, epoch: int, number: int, sandbox: Sandbox) -> tuple[Case, ...]:
        """Return up to `number` fresh tests; () where there is no solution or nothing can be mutated.

        Raises RunFailed where the sandbox has no answer.
        """
        if not number or not problem.solution.strip() or problem.language != "python":
            return ()
        name = hashlib.sha256(
            repr((problem.reference(), epoch, number)).encode("utf-8", "replace")
        ).hexdigest()
        made = self._made.get(name)
        if made is None or made.get_loop() is not asyncio.get_running_loop() or _failed(made):
            made = asyncio.ensure_future(fresh(problem, f"{problem.name} {epoch}", number, sandbox))
            self._made[name] = made
        self._made.move_to_end(name)
        while len(self._made) > MAX_KEPT:
            self._made.popitem(last=False)
        return await asyncio.shield(made)  # one attempt's deadline must not end what the others wait for


def _failed(task: asyncio.Task[tuple[Case, ...]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def fresh(problem: Problem, seed: str, number: int, sandbox: Sandbox) -> tuple[Case, ...]:
    """Return up to `number` tests that the problem's solution passes, of answers as different as can be."""
    cases = [case for case in (*problem.visible, *problem.hidden) if _is_comparable(case)]
    tried = mutants(cases, TRIES * number, seed, problem.function)
    if not tried:
        return ()
    answered = await _answered(problem, tried, sandbox)
    chosen = varied(answered, number)
    if not chosen:
        return ()
    proof = await sandbox.test(problem.program(problem.solution), chosen, LIMITS)
    if proof.status == "INFRA":
        raise RunFailed("the sandbox has no verdict on fresh tests of the task's own solution")
    return tuple(case for case, found in zip(chosen, proof.cases, strict=True) if found.status == "OK")


def varied(cases: Sequence[Case], number: int) -> list[Case]:
    """Return up to `number` cases, in turn from those of each answer, so that no answer outweighs."""
    by_answer: dict[str, list[Case]] = {}
    for case in cases:
        by_answer.setdefault(key(case.expected), []).append(case)
    found: list[Case] = []
    while by_answer and len(found) < number:
        for answer in list(by_answer)[: number - len(found)]:
            found.append(by_answer[answer].pop(0))
            if not by_answer[answer]:
                del by_answer[answer]
    return found


def _is_comparable(case: Case) -> bool:
    view, _, rest = case.comparator.partition(" ")
    comparator = rest if view in VIEWS and rest else case.comparator
    return (
        case.function is None
        or comparator in ("==", "truthy", "falsy", "is")
        or comparator.partition(":")[0] in SHARED
    )


async def _answered(problem: Problem, cases: Sequence[Case], sandbox: Sandbox) -> list[Case]:
    if problem.function is None:
        return await _printed(problem, cases, sandbox)
    calls = [(case.function, case.arguments, dict(case.keywords)) for case in cases]
    given = plain.dumps((problem.program(problem.solution).source, calls))
    result = await sandbox.run(_driver(given), LIMITS)
    if result.status == "INFRA":
        raise RunFailed("the sandbox has no answer of the task's own solution to fresh inputs")
    found: list[Case] = []
    for case, line in zip(cases, result.stdout.split(b"\n")[:-1], strict=False):
        outcome = plain.loads(line)
        if outcome[0] == "value" and len(outcome[1]) <= MAX_ANSWER:
            found += _with_answer(case, plain.loads(outcome[1]))
    return found


def _with_answer(case: Case, answer: Any) -> list[Case]:
    """Return the case with an answer to expect, seen as its comparator sees it; [] where that fails."""
    view, _, rest = case.comparator.partition(" ")
    comparator = rest if view in VIEWS and rest else case.comparator
    try:
        if view in VIEWS and rest:
            answer = VIEWS[view](answer)
        elif hasattr(answer, "__next__"):
            return []
    except (TypeError, ValueError):
        return []
    if comparator in ("truthy", "falsy", "is"):
        return [replace(case, expected=bool(answer), comparator="bool ==", hidden=True)]
    return [replace(case, expected=answer, hidden=True)]


async def _printed(problem: Problem, cases: Sequence[Case], sandbox: Sandbox) -> list[Case]:
    program = problem.program(problem.solution)
    limits = replace(LIMITS, cpu_seconds=2.0)
    found: list[Case] = []
    for case in cases:
        result = await sandbox.run(replace(program, stdin=case.stdin), limits)
        if result.status == "INFRA":
            raise RunFailed("the sandbox has no answer of the task's own solution to fresh inputs")
        if result.status == "OK" and not result.truncated:
            found.append(replace(case, expected=result.stdout, hidden=True))
    return found


def _driver(given: bytes) -> Program:
    """Return the program that asks a solution; it is trusted, and its answers are read as plain data."""
    files = dict.fromkeys(("posttrain/__init__.py", "posttrain/sandbox/__init__.py"), b"")
    files["posttrain/sandbox/plain.py"] = (
        resources.files("posttrain").joinpath("sandbox", "plain.py").read_bytes()
    )
    return Program("python", DRIVER, files={**files, "calls": given})
