"""Tasks that nobody can solve look like tasks, and being paid for one raises an alarm."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from coding import DOUBLE

from posttrain.domains.canaries import CANARY, is_canary, with_canaries
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Reward, Task, Trajectory, Turn


def attempt(task: Task, text: str) -> Trajectory:
    return Trajectory(task, (Turn(Message("assistant", text), (1,), (0.0,), 0),), "stop")


def plain_task(split: str, level: int, index: int) -> Task:
    return Task(
        f"{split}/{index}", "words", level, (Message("user", f"word {index}"),), {"answer": f"w{index}"}
    )


async def by_answer(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
    return Reward(float(trajectory.answer == trajectory.task.reference["answer"]))


async def generous(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
    return Reward(0.5)


WORDS = Domain("words", lambda split, level: None, plain_task, by_answer)  # type: ignore[arg-type]


def test_about_the_share_asked_for_are_canaries_the_same_ones_each_time() -> None:
    domain = with_canaries(WORDS, 0.1)
    chosen = [i for i in range(2_000) if is_canary(domain.task("train", 0, i))]
    assert 150 < len(chosen) < 250  # six deviations around 200
    assert chosen == [i for i in range(2_000) if is_canary(with_canaries(WORDS, 0.1).task("train", 0, i))]
    assert not any(is_canary(domain.task("eval", 0, i)) for i in range(200))


async def test_a_canary_has_the_prompt_of_its_task_and_an_answer_that_nobody_knows() -> None:
    domain = with_canaries(WORDS, 0.5)
    index = next(i for i in range(99) if is_canary(domain.task("train", 0, i)))
    task, real = domain.task("train", 0, index), WORDS.task("train", 0, index)
    assert task.prompt == real.prompt
    judged = await domain.verify(attempt(task, str(real.reference["answer"])), ScriptedSandbox(), {})
    assert (judged.value, judged.flags, judged.parts) == (0.0, (), {CANARY: 1.0})


async def test_a_judge_that_pays_for_a_canary_is_found_out() -> None:
    domain = with_canaries(replace(WORDS, verify=generous), 0.5)
    index = next(i for i in range(99) if is_canary(domain.task("train", 0, i)))
    assert (
        await domain.verify(attempt(domain.task("train", 0, index), "x"), ScriptedSandbox(), {})
    ).flags == (CANARY,)
    other = next(i for i in range(99) if not is_canary(domain.task("train", 0, i)))
    assert (
        await domain.verify(attempt(domain.task("train", 0, other), "x"), ScriptedSandbox(), {})
    ).flags == ()


def test_hidden_tests_of_a_problem_become_unknowable_and_visible_ones_stay() -> None:
    def task(split: str, level: int, index: int) -> Task:
        return Task(f"{index}", "code", level, (Message("user", "?"),), DOUBLE.reference())

    domain = with_canaries(Domain("code", lambda split, level: 5, task, by_answer), 0.9)  # type: ignore[arg-type]
    made = next(t for i in range(9) if is_canary(t := domain.task("train", 0, i)))
    problem = Problem.of(made)
    assert problem.visible == DOUBLE.visible
    assert [case.arguments for case in problem.hidden] == [case.arguments for case in DOUBLE.hidden]
    expected = [case.expected for case in problem.hidden]
    assert len(set(expected)) == len(expected)
    assert not {*map(repr, expected)} & {repr(case.expected) for case in DOUBLE.hidden}


def test_what_cannot_be_a_canary_is_refused() -> None:
    with pytest.raises(ConfigError, match="rate"):
        with_canaries(WORDS, 1.0)
    bare = replace(WORDS, task=lambda s, level, i: Task(f"{i}", "words", level, (Message("user", "?"),), {}))
    with pytest.raises(ConfigError, match="neither"):
        [with_canaries(bare, 0.9).task("train", 0, i) for i in range(9)]
