"""Judge a program by a problem's tests, a few at a time, so that endless loops cost little."""

from __future__ import annotations

from collections.abc import Sequence

from posttrain.domains.problem import Problem
from posttrain.errors import InputError
from posttrain.protocols import Case, CaseResult, Limits, Sandbox
from posttrain.rewards.code import MEANINGS, CodeReward, no_code, weighed
from posttrain.types import Reward

LIMITS = Limits(cpu_seconds=2.0, wall_seconds=15.0)
"""What one call, or one run of a program, may use by default."""
FIRST_BATCH, LARGEST_BATCH = 2, 8
MAX_TIMEOUTS = 3
"""After so many tests that timed out, the rest count as timed out too."""
NOT_RUN = "not run: earlier tests timed out"


async def judge_problem(
    problem: Problem,
    source: str,
    sandbox: Sandbox,
    scheme: CodeReward = CodeReward(),
    limits: Limits = LIMITS,
) -> Reward:
    """Return what a candidate's source earns by the problem's visible and hidden tests.

    `source` is code, already taken out of an answer. Raises RunFailed where the sandbox has no verdict,
    InputError for a problem without hidden tests.
    """
    if not problem.hidden:
        raise InputError(f"problem {problem.name!r} has no hidden test, so nothing judges. Give it some.")
    if not source.strip():
        return no_code(scheme)
    cases = (*problem.visible, *problem.hidden)
    results = await judge_cases(problem, source, cases, sandbox, limits, patience=patience(scheme))
    num_visible = len(problem.visible)
    return weighed(results[:num_visible], results[num_visible:], scheme)


async def judge_cases(
    problem: Problem,
    source: str,
    cases: Sequence[Case],
    sandbox: Sandbox,
    limits: Limits = LIMITS,
    *,
    patience: int = MAX_TIMEOUTS,
) -> tuple[CaseResult, ...]:
    """Return the verdicts on cases in order; after `patience` time-outs the rest are not run.

    What does not compile is found out once.
    """
    results: list[CaseResult] = []
    batch, program = FIRST_BATCH, problem.program(source)
    while len(results) < len(cases):
        some = cases[len(results) : len(results) + batch]
        results += (await sandbox.test(program, some, limits)).cases
        meanings = [MEANINGS[result.status] for result in results]
        rest = len(cases) - len(results)
        if "none" in meanings:
            results += [CaseResult("INFRA", "not run: an earlier test has no verdict")] * rest
        elif "compile_error" in meanings:
            results += [CaseResult("COMPILE_ERROR", results[-1].detail)] * rest
        elif meanings.count("timeout") >= patience:
            results += [CaseResult("CPU_TIMEOUT", NOT_RUN)] * rest
        batch = min(2 * batch, LARGEST_BATCH)
    return tuple(results)


def patience(scheme: CodeReward) -> int:
    """Return how many time-outs are waited for: one, where one decides."""
    return 1 if scheme.timeout_when == "any" else MAX_TIMEOUTS
