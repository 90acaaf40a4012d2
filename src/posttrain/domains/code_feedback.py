"""What an attempt is told about itself: its compiler's error, or the first visible test that it fails.

The attempt runs in the episode's box. What comes back is an observation, short and without hidden data; no
verdict ever rests on it.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from posttrain.domains.code_prompt import call_as_text, case_as_text
from posttrain.domains.problem import Problem
from posttrain.protocols import Case, Limits, Program, RunResult, Session
from posttrain.sandbox import plain
from posttrain.sandbox.verdict import compare

MAX_CHARACTERS = 600
"""The longest part of a test or of an error that is told."""
MAX_TESTS = 16
_LATE = ("CPU_TIMEOUT", "WALL_TIMEOUT")
_ENDED = {
    "MEMORY": "it needs more memory than it may have",
    "OUTPUT": "it prints more than it may",
    "DISK": "it writes more than it may",
}


async def feedback(
    problem: Problem, source: str, session: Session, limits: Limits, turn: int = 0
) -> str | None:
    """Return what is wrong with a source as its visible tests show it, or None where they pass.

    Raises RuntimeError where the box is lost.
    """
    if not source.strip():
        return "There is no code in the answer."
    cases = problem.visible[:MAX_TESTS]
    out = f"seen-{turn}"
    whole = Limits(
        cpu_seconds=limits.cpu_seconds * (len(cases) + 1),
        wall_seconds=limits.wall_seconds,
        memory_bytes=limits.memory_bytes,
    )
    result = await session.run(_program(problem, source, cases, out), whole)
    if result.status == "INFRA":
        raise RuntimeError(f"the box of an episode is lost: {_text(result.stderr)}")
    return _told(problem, cases, _lines(result, out), result)


def _program(problem: Problem, source: str, cases: tuple[Case, ...], out: str) -> Program:
    asked = {
        "out": out,
        "source": problem.program(source).source,
        "programs": problem.function is None,
        "steps": [_step(case) for case in cases],
    }
    package = resources.files("posttrain")
    files = dict.fromkeys(("posttrain/__init__.py", "posttrain/sandbox/__init__.py"), b"")
    files["posttrain/sandbox/plain.py"] = package.joinpath("sandbox", "plain.py").read_bytes()
    files["asked"] = plain.dumps(asked)
    observer = package.joinpath("domains", "code_observer.py").read_text("utf-8")
    return Program("python", observer, files=files, collect=(out,))


def _step(case: Case) -> tuple[object, ...]:
    if case.function is None:
        return ("print", case.stdin)
    if case.comparator == "asserts":
        return ("test", case_as_text(case), case.function)
    return ("call", case.function, case.arguments, dict(case.keywords))


def _lines(result: RunResult, out: str) -> list[Any]:
    """Return what the observer saw, as far as it can be read: the attempt may have spoilt it."""
    seen: list[Any] = []
    for line in result.files.get(out, b"").splitlines():
        try:
            value = plain.loads(line)
        except ValueError:
            break
        if not isinstance(value, tuple) or not value:
            break
        seen.append(value)
    return seen


def _told(problem: Problem, cases: tuple[Case, ...], seen: list[Any], result: RunResult) -> str | None:
    if seen and seen[0][0] in ("compile", "define"):
        what = "does not compile" if seen[0][0] == "compile" else "fails when it is run"
        return f"The code {what}:\n{_line_shifted(problem, str(seen[0][-1]))}"
    for case, one in zip(cases, seen, strict=False):
        problem_seen = _failure(case, one)
        if problem_seen is not None:
            return _about(case, _line_shifted(problem, problem_seen))
    if len(seen) >= len(cases) and (cases or result.status == "OK"):
        return None
    late = result.status in _LATE
    how = "it does not come to an end in time" if late else _ENDED.get(result.status, "it ends the process")
    return _about(cases[len(seen)], how) if cases else f"The code fails when it is run: {how}"


def _about(case: Case, what: str) -> str:
    return f"This example fails:\n{_cut(case_as_text(case))}\nbecause {_cut(what)}"


def _failure(case: Case, seen: tuple[Any, ...]) -> str | None:
    """Return why a case fails, or None where it passes; what cannot be judged here passes."""
    if case.comparator == "raises":
        names = (case.expected,) if isinstance(case.expected, str) else tuple(case.expected)
        fits = (
            seen[0] == "raised" and len(seen) == 3 and isinstance(seen[1], list) and set(names) & set(seen[1])
        )
        return None if fits else f"it {_how(seen)}"
    if seen[0] in ("held", "printed", "value") and len(seen) <= 2:
        return _difference(case, seen)
    return f"it {_how(seen)}"


def _how(seen: tuple[Any, ...]) -> str:
    return f"raises {seen[-1]}" if seen[0] == "raised" else "raises nothing"


def _difference(case: Case, seen: tuple[Any, ...]) -> str | None:
    if seen[0] == "held" or case.comparator == "custom":
        return None
    try:
        answer = seen[1] if seen[0] == "printed" else plain.loads(seen[1])
        expected = case.expected
        if seen[0] == "printed" and isinstance(expected, str):
            expected = expected.encode("utf-8", "surrogatepass")
        if compare.matches(case.comparator, expected, answer):
            return None
        shown = _text(answer) if isinstance(answer, bytes) and case.function is None else repr(answer)
    except (ValueError, TypeError, RecursionError):
        return "its answer cannot be read"
    return f"it prints:\n{shown}" if case.function is None else f"{call_as_text(case)} gives {shown}"


def _line_shifted(problem: Problem, text: str) -> str:
    """Return an error's text with line numbers of the answer alone, without the preamble before it."""
    shift = problem.preamble.count("\n") + 1 if problem.preamble else 0

    def own(match: re.Match[str]) -> str:
        return f"line {max(1, int(match[1]) - shift)}"

    return re.sub(r"\bline (\d{1,9})\b", own, text)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _text(content: bytes) -> str:
    return _cut(content.decode("utf-8", "replace"))
