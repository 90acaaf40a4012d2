"""Reward functions written for TRL, unchanged; and what they must not get away with."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from posttrain.errors import ConfigError
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Reward, Trajectory, Turn, Unjudged

from .rewarded import CHAT_ROWS, ROWS, earned, example, first, verdict


async def test_a_trl_function_gets_what_trl_gives_it(make: Callable[..., Domain]) -> None:
    seen: list[dict[str, Any]] = []

    def spy(prompts: list[Any], completions: list[Any], **rest: Any) -> list[float]:
        seen.append({"prompts": prompts, "completions": completions, **rest})
        return [0.25]

    domain = make(spy)
    task = first(domain, kind="b")
    said = Turn(Message("assistant", "12"), (5, 6, 2), (-0.5, -0.1, -0.2), 3)
    tried = Trajectory(task, (Turn(task.prompt[0], (1,)), said), "stop")
    assert (await domain.verify(tried, ScriptedSandbox(), {})).value == 0.25
    (given,) = seen
    assert given["prompts"] == [task.prompt[0].content]
    assert given["completions"] == ["12"]
    assert given["completion_ids"] == [[5, 6, 2]]
    assert given["answer"] == [task.reference["columns"]["answer"]]
    assert (given["kind"], given["empty"]) == (["b"], [None])
    assert {"trainer_state", "log_extra", "log_metric"} < set(given)
    assert set(given) == {
        *("prompts", "completions", "completion_ids", "answer", "kind", "empty"),
        *("trainer_state", "log_extra", "log_metric"),
    }


async def test_rows_of_messages_get_conversations(make: Callable[..., Domain]) -> None:
    def spoken(completions: list[list[dict[str, str]]], prompts: list[Any], **_: Any) -> list[float]:
        assert prompts[0][0]["role"] == "user"
        assert completions[0][0]["role"] == "assistant"
        return [float(completions[0][0]["content"] == "yes")]

    assert (await earned(make(spoken, CHAT_ROWS), "yes")).value == 1.0


async def test_the_shipped_example_runs_unchanged(make: Callable[..., Domain]) -> None:
    module = example("my_rewards")
    cells = [{**row, "difficulty": ("plain", "carry")[n % 2]} for n, row in enumerate(ROWS)]
    rewards = [module.accuracy, {"use": module.digits, "weight": 0.5}, module.short]
    domain = make(rewards, cells)
    task = first(domain, difficulty="plain")
    answer = f"it is {task.reference['columns']['answer']}."
    digits = sum(map(str.isdigit, answer)) / len(answer)
    reward = await earned(domain, answer, task)
    assert reward.parts == {"accuracy": 1.0, "digits": digits, "short": 1.0, "short.characters": len(answer)}
    assert reward.value == pytest.approx(1.0 + 0.5 * digits + 1.0)
    hard = first(domain, difficulty="carry")
    assert "short" not in (await earned(domain, "0", hard)).parts


async def test_weights_add_up_and_none_is_left_out(make: Callable[..., Domain]) -> None:
    def one(completions: list[str], **_: Any) -> list[float | None]:
        return [0.5]

    def two(completions: list[str], kind: list[str], **_: Any) -> list[float | None]:
        return [3.0 if each == "a" else None for each in kind]

    domain = make([{"use": one, "weight": 2.0}, {"use": two, "weight": -0.1}])
    both, alone = first(domain, kind="a"), first(domain, kind="b")
    assert await earned(domain, "", both) == Reward(2 * 0.5 - 0.1 * 3.0, {"one": 0.5, "two": 3.0})
    assert await earned(domain, "", alone) == Reward(1.0, {"one": 0.5})


async def test_asynchronous_functions_run_together(make: Callable[..., Domain]) -> None:
    inside, both = [0], asyncio.Event()

    async def judge_one(completions: list[str], **_: Any) -> list[float]:
        inside[0] += 1
        if inside[0] == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        return [0.5]

    domain = make([{"use": judge_one, "name": "x"}, {"use": judge_one, "name": "y"}])
    assert (await earned(domain, "")).parts == {"x": 0.5, "y": 0.5}


async def test_objects_partial_functions_and_arrays_are_taken(make: Callable[..., Domain]) -> None:
    class Judge:
        async def __call__(self, completions: list[str], **_: Any) -> Any:
            return numpy.array([0.25], dtype=numpy.float32)

    def scaled(completions: list[str], answer: list[str], scale: float = 1.0) -> tuple[float, ...]:
        return tuple(scale * (text == gold) for text, gold in zip(completions, answer, strict=True))

    bound = {"use": scaled, "scale": 4.0, "name": "bound"}
    domain = make([Judge(), functools.partial(scaled, scale=2.0), bound])
    task = domain.task("train", 0, 0)
    reward = await earned(domain, task.reference["columns"]["answer"], task)
    assert reward.parts == {"Judge": 0.25, "scaled": 2.0, "bound": 4.0}


async def test_what_is_bound_is_not_overwritten_by_a_column(make: Callable[..., Domain]) -> None:
    def same(completions: list[str], answer: str, **_: Any) -> list[float]:
        return [float(completions[0] == answer)]

    assert (await earned(make({"use": same, "answer": "fixed"}), "fixed")).value == 1.0


async def test_a_function_cannot_change_the_task(make: Callable[..., Domain]) -> None:
    def forge(completions: list[str], tags: list[list[str]], **_: Any) -> list[float]:
        tags[0].append("forged")
        return [float(len(tags[0]))]

    domain = make(forge, [{**row, "tags": ["x"]} for row in ROWS])
    task = domain.task("train", 0, 0)
    assert [(await earned(domain, "", task)).value for _ in range(2)] == [2.0, 2.0]


BROKEN: list[tuple[str, Any, str]] = [
    ("nan", [float("nan")], "returned nan, which is not finite. Return None where"),
    ("inf", [float("inf")], "returned inf, which is not finite"),
    ("short", [], "returned 0 rewards for 1 completion"),
    ("long", [1.0, 1.0], "returned 2 rewards for 1 completion"),
    ("text", ["1.0"], "returned '1.0', which is no number"),
    ("number", 1.0, "returned 1.0, expected a list with one reward"),
    ("none", [None], "no reward function applies: broken gave None"),
    ("nothing", None, "returned None, expected a list"),
]


@pytest.mark.parametrize(("name", "given", "detail"), BROKEN, ids=[name for name, _, _ in BROKEN])
async def test_a_broken_reward_is_no_verdict_and_says_why(
    make: Callable[..., Domain], name: str, given: Any, detail: str
) -> None:
    def broken(completions: list[str], **_: Any) -> Any:
        return given

    found = await verdict(make(broken), "x")
    assert isinstance(found, Unjudged)
    assert detail in found.detail
    assert name == "none" or "reward function broken" in found.detail


async def test_a_function_that_raises_is_no_verdict(make: Callable[..., Domain]) -> None:
    def broken(completions: list[str], **_: Any) -> list[float]:
        raise KeyError("solution")

    found = await verdict(make(broken), "x")
    assert isinstance(found, Unjudged)
    assert "KeyError: 'solution'" in found.detail


async def test_trainer_state_can_be_taken_but_tells_nothing(make: Callable[..., Domain]) -> None:
    def polite(completions: list[str], trainer_state: Any = None, **_: Any) -> list[float]:
        return [1.0]

    def scheduled(completions: list[str], trainer_state: Any, **_: Any) -> list[float]:
        return [1.0 if trainer_state.global_step > 10 else 0.0]

    assert (await earned(make(polite), "x")).value == 1.0
    found = await verdict(make(scheduled), "x")
    assert isinstance(found, Unjudged)
    assert "trainer_state.global_step: a verdict depends on the attempt alone" in found.detail


def test_a_column_that_a_function_needs_and_no_row_has_is_named_before_the_run(
    make: Callable[..., Domain],
) -> None:
    def accuracy(completions: list[str], anwser: list[str], **_: Any) -> list[float]:
        return [0.0]

    with pytest.raises(
        ConfigError, match=r"accuracy needs 'anwser', which no row has. Did you mean 'answer'"
    ):
        make(accuracy)


async def test_blocking_functions_wait_side_by_side_in_threads(make: Callable[..., Domain]) -> None:
    together = threading.Barrier(4)

    def slow(completions: list[str], **_: Any) -> list[float]:
        together.wait(timeout=20)  # breaks unless four calls run at once
        return [1.0]

    domain = make(slow, threads=True)
    rewards = await asyncio.gather(*(earned(domain, "x") for _ in range(4)))
    assert [reward.value for reward in rewards] == [1.0] * 4


async def test_a_function_that_hangs_in_a_thread_costs_its_own_verdict(make: Callable[..., Domain]) -> None:
    over = threading.Event()

    def hanging(completions: list[str], **_: Any) -> list[float]:
        if completions == ["hang"]:
            over.wait()
        return [1.0]

    domain = make(hanging, threads=True)
    late, fine = await asyncio.gather(verdict(domain, "hang", 0.3), verdict(domain, "go", 10.0))
    over.set()
    assert isinstance(late, Unjudged)
    assert late.kind == "deadline"
    assert fine == Reward(1.0, {"hanging": 1.0})


@pytest.mark.parametrize("threads", [False, True])
async def test_a_function_that_ends_its_thread_is_no_verdict(
    make: Callable[..., Domain], threads: bool
) -> None:
    def leaving(completions: list[str], **_: Any) -> list[float]:
        raise SystemExit(3)

    found = await verdict(make(leaving, threads=threads), "x")
    assert isinstance(found, Unjudged)
    assert "SystemExit(3)" in found.detail


async def test_trls_own_functions_run_unchanged(make: Callable[..., Domain]) -> None:
    trl = pytest.importorskip("trl.rewards")
    overlong = trl.get_soft_overlong_punishment(max_completion_len=20, soft_punish_cache=10)
    repeats = trl.get_repetition_penalty_reward(ngram_size=2, max_penalty=-1.0)
    domain = make([trl.think_format_reward, overlong, repeats], CHAT_ROWS)
    task = domain.task("train", 0, 0)
    said = Turn(Message("assistant", "<think>\nx\n</think>\n4"), (5,) * 15, (-0.1,) * 15, 0)
    reward = await domain.verify(Trajectory(task, (said,), "stop"), ScriptedSandbox(), {})
    # 15 tokens: half way from 10 to 20; one of 14 pairs of tokens is new.
    assert reward.parts == {
        "think_format_reward": 1.0,
        "soft_overlong_punishment_reward": -0.5,
        "repetition_penalty_reward": pytest.approx(-13 / 14),
    }
