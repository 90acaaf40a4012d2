"""Slow and fast functions agree; a fast answer earns, a slow one little, a wrong one nothing."""

import asyncio
import json

import pytest

from posttrain.domains.optimise import judged, optimise
from posttrain.domains.optimise_families import FAMILIES
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError
from posttrain.sandbox import Local
from posttrain.types import Reward


@pytest.mark.parametrize("index", range(len(FAMILIES)), ids=lambda i: FAMILIES[i].name)
def test_the_slow_function_gives_what_hidden_cases_expect(index: int) -> None:
    task = optimise().task("train", 0, index)
    problem, names = Problem.of(task), {}
    exec(str(task.reference["slow"]), names)
    slow = names[problem.function]
    for case in problem.hidden:
        assert slow(*json.loads(json.dumps(case.arguments))) == case.expected
    assert len({json.dumps(case.expected) for case in problem.hidden}) > 2, "a constant would pass"
    assert 0 < task.reference["num_edges"] < len(problem.hidden)


def test_splits_differ_and_tasks_are_pure() -> None:
    domain = optimise()
    slow = [{domain.task(s, 0, i).reference["slow"] for i in range(26)} for s in ("train", "eval")]
    assert not slow[0] & slow[1]
    assert domain.task("train", 0, 4) == domain.task("train", 0, 4)


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(ConfigError, match="primez"):
        optimise(families=("primez",))


def test_fast_slow_wrong_and_memorised_answers_earn_what_they_deserve() -> None:
    task = optimise(families=("common",)).task("train", 0, 0)
    problem = Problem.of(task)
    table = {repr(case.arguments): case.expected for case in problem.hidden}
    learnt = f"def {problem.function}(*a):\n    return {table!r}.get(repr(a), [])\n"
    answers = (
        problem.solution,
        str(task.reference["slow"]),
        f"def {problem.function}(*a): return []",
        learnt,
    )

    async def verdicts() -> list[Reward]:
        sandbox = await Local().open()
        try:
            return [await judged(f"```python\n{answer}\n```", task, sandbox) for answer in answers]
        finally:
            await sandbox.close()

    fast, slow, wrong, memorised = asyncio.run(verdicts())
    assert fast.parts["hidden"] == slow.parts["hidden"] == 1.0
    assert slow.parts["speed"] < 0.2 < fast.parts["speed"]
    assert (wrong.value, memorised.value, memorised.parts["hidden"]) == (0.0, 0.0, 1.0)
