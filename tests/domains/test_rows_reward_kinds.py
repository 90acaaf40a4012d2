"""Reward functions written for verl, verifiers of our own kind, comparisons by name, and their mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from posttrain.domains.rows_choose import exact, fields, numeric
from posttrain.domains.rows_reward import number
from posttrain.errors import ConfigError, InputError, RowError
from posttrain.protocols import Sandbox
from posttrain.types import Domain, Reward, Trajectory, Unjudged

from .rewarded import ROWS, VERL_ROWS, earned, example, verdict


async def test_a_verl_function_gets_its_four_arguments(make: Callable[..., Domain]) -> None:
    seen: list[Any] = []

    def compute_score(
        data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None
    ) -> float:
        seen.append((data_source, solution_str, ground_truth, extra_info))
        return 0.5

    domain = make(compute_score, VERL_ROWS)
    task = domain.task("train", 0, 0)
    row = task.reference["columns"]
    assert await earned(domain, "7", task) == Reward(0.5, {"compute_score": 0.5})
    assert seen == [("sums", "7", row["reward_model"]["ground_truth"], row["extra_info"])]


async def test_the_shipped_verl_example_runs_unchanged(make: Callable[..., Domain]) -> None:
    domain = make(example("verl_reward").compute_score, VERL_ROWS)
    task = domain.task("train", 0, 0)
    truth = task.reference["columns"]["reward_model"]["ground_truth"]
    right = await earned(domain, f"so #### {truth}", task)
    assert right == Reward(1.0, {"compute_score": 1.0, "compute_score.marked": 1.0})
    assert (await earned(domain, "so #### 99", task)).value == 0.1
    assert (await earned(domain, truth, task)).value == 0.0


async def test_an_asynchronous_verl_function_with_bound_arguments_runs(make: Callable[..., Domain]) -> None:
    async def scored(solution_str: str, ground_truth: str, strict: bool = False, **_: Any) -> dict[str, Any]:
        return {"score": float(strict), "note": "text is left out", "odd": float("nan")}

    domain = make({"use": scored, "strict": True}, VERL_ROWS)
    assert await earned(domain, "") == Reward(1.0, {"scored": 1.0})


def test_a_verl_row_without_ground_truth_is_named(make: Callable[..., Domain]) -> None:
    def compute_score(data_source: str, solution_str: str, ground_truth: str) -> float:
        return 0.0

    cells = [*VERL_ROWS[:4], {**VERL_ROWS[4], "reward_model": {"style": "rule"}}, *VERL_ROWS[5:]]
    with pytest.raises(RowError, match=r"rows\.jsonl, row 5, field 'reward_model\.ground_truth': is missing"):
        make(compute_score, cells)
    assert make(compute_score, ROWS, ground_truth="answer").size("train", 0)


async def test_a_score_without_a_score_is_no_verdict(make: Callable[..., Domain]) -> None:
    def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> Any:
        return {"acc": 1.0}

    found = await verdict(make(compute_score, VERL_ROWS), "x")
    assert isinstance(found, Unjudged)
    assert "which has no 'score'" in found.detail


async def test_a_verifier_of_our_own_kind_can_be_one_of_the_rewards(make: Callable[..., Domain]) -> None:
    async def brief(trajectory: Trajectory, sandbox: Sandbox, files: Any) -> Reward:
        return Reward(float(len(trajectory.answer) < 5), {"length": float(len(trajectory.answer))})

    domain = make(["exact:answer", {"use": brief, "weight": 0.5}])
    assert (await earned(domain, "no")).parts == {"exact": 0.0, "brief": 1.0, "brief.length": 2.0}


async def test_flags_and_rewards_by_turn_of_verifiers_are_kept(make: Callable[..., Domain]) -> None:
    async def wary(trajectory: Trajectory, sandbox: Sandbox, files: Any) -> Reward:
        return Reward(1.0, flags=("quarantine", "odd"), by_turn=(0.5,))

    async def weary(trajectory: Trajectory, sandbox: Sandbox, files: Any) -> Reward:
        return Reward(1.0, flags=("odd",), by_turn=(0.25,))

    found = await earned(make([wary, "exact:answer", {"use": weary, "weight": 2}]), "no")
    assert found.flags == ("quarantine", "odd")
    assert found.by_turn == (0.5 + 2 * 0.25,)
    assert found.is_quarantined


@pytest.mark.parametrize(
    ("compare", "answer", "gold", "value"),
    [
        (exact, "The answer is Paris.", "Paris", 1.0),
        (exact, "paris", "Paris", 0.0),
        (exact, "3.0", 3, 1.0),
        (numeric, r"\boxed{1,000}", "1000", 1.0),
        (numeric, "it is 12", 12, 0.0),  # the last line is no plain number
        (numeric, "12", 12.0, 1.0),
        (numeric, "0.1", 0.1, 1.0),
        (numeric, "nan", 1, 0.0),
        (fields, '{"a": 1, "b": 2}', '{"a": 1, "b": 3}', 0.5),
        (fields, '```json\n{"a": 1}\n```', {"a": 1}, 1.0),
        (fields, "nothing", {"a": 1}, 0.0),
    ],
)
def test_comparisons_by_name(compare: Any, answer: str, gold: Any, value: float) -> None:
    assert compare(answer, gold) == value


@pytest.mark.parametrize(
    ("reward", "cell", "problem"),
    [
        ("numeric:answer", "twelve", "'twelve' is no plain number"),
        ("numeric:answer", True, "True is no plain number"),
        ("fields:answer", "{", "the gold record: not JSON"),
    ],
)
def test_gold_cells_that_cannot_be_compared_are_malformed_rows(
    make: Callable[..., Domain], reward: str, cell: Any, problem: str
) -> None:
    cells = [{"prompt": str(n), "answer": "12" if "num" in reward else "{}"} for n in range(30)]
    with pytest.raises(RowError, match=f"row 31, field 'answer': {problem}"):
        make(reward, [*cells, {"prompt": "x", "answer": cell}])


def unknown(answers: list[str]) -> list[float]:
    return []


@pytest.mark.parametrize(
    ("reward", "problem"),
    [
        ("exact", "'exact' needs the column to compare with. Write it after the colon"),
        ("exactly", "'exactly' is not the name of a reward function. Did you mean 'exact'"),
        ("exac:answer", "there is no module 'exac'.*Did you mean 'exact'"),
        ("json:nope", "'json' has no 'nope'"),
        ("json:__name__", "is a str, not a function"),
        ([], "names no reward function"),
        ({"weight": 1.0}, "expected a name or a table with `use`"),
        ({"use": "exact:answer", "weight": "high"}, "reward.weight: 'high' is not a number"),
        ({"use": "exact:answer", "strict": True}, "reward.strict: 'exact' takes no such setting"),
        ({"use": unknown, "stric": 1}, "reward.stric: no such argument"),
        (["exact:answer", "exact:kind"], "two reward functions are named 'exact'. Give one"),
        ({"use": "exact:answer", "weight": 0}, "all weights are 0"),
        (unknown, r"unknown\(answers\) is of no known kind. TRL's take completions"),
        (3, "expected a name or a table with `use`, got 3"),
    ],
)
def test_a_reward_that_cannot_be_used_says_why(
    make: Callable[..., Domain], reward: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        make(reward)


def test_errors_of_two_rewards_say_which(make: Callable[..., Domain]) -> None:
    with pytest.raises(ConfigError, match=r"^reward\.1: 'exact' needs the column"):
        make(["exact:answer", "exact"])


def test_numbers_of_any_library_pass_and_nothing_else() -> None:
    assert number(numpy.float64(0.5), "f") == 0.5
    assert number(True, "f") == 1.0
    with pytest.raises(InputError, match="reward function f returned"):
        number(object(), "f")
