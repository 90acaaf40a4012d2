"""Weights count relative to their sum, a gate that does not hold pays its value, turns sum to the end."""

import pytest

from posttrain.algorithms.credit import has_signal
from posttrain.errors import ConfigError, InputError
from posttrain.rewards.mix import Gate, Mix, mix, progress
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

TASK = Task("t", "d", 0, (Message("user", "?"),), {})


def test_weights_are_relative_to_their_sum_and_parts_stay_visible() -> None:
    found = mix({"tests": 1.0, "style": 0.5, "other": 0.2}, Mix({"tests": 3, "style": 1}, {}), ("odd",))
    assert found.value == pytest.approx(0.875)
    assert found.parts == {"tests": 1.0, "style": 0.5, "other": 0.2}
    assert found.flags == ("odd",)


def test_under_a_gate_nothing_else_is_earned_and_at_it_everything_is() -> None:
    how = Mix({"style": 1}, {"tests": Gate(0.5, -1.0)})
    assert mix({"tests": 0.49, "style": 1.0}, how).value == -1.0
    assert mix({"tests": 0.5, "style": 1.0}, how).value == 1.0


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"a": float("nan")}])
def test_weights_that_mean_nothing_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="weight"):
        Mix(weights, {})


@pytest.mark.parametrize("parts", [{}, {"tests": float("nan")}, {"tests": float("inf")}])
def test_a_part_that_is_missing_or_not_finite_is_no_verdict(parts: dict[str, float]) -> None:
    with pytest.raises(InputError, match="tests"):
        mix(parts, Mix({"tests": 1.0}, {}))


def test_progress_by_turn_sums_to_the_last_verdict() -> None:
    assert progress([0.25, 0.0, 1.0]) == (0.25, -0.25, 1.0)
    assert progress([]) == ()


def test_process_rewards_alone_are_a_signal_with_turn_gamma_only() -> None:
    def episode(verdicts: list[float]) -> tuple[Trajectory, Reward]:
        turn = Turn(Message("assistant", "x"), (1,), (0.0,), 0)
        return Trajectory(TASK, (turn,) * len(verdicts), "stop"), Reward(0.0, by_turn=progress(verdicts))

    trajectories, rewards = zip(episode([0.0, 1.0]), episode([1.0, 0.0]), strict=True)
    group = Group(0, TASK, trajectories, rewards)
    assert has_signal(group, 1.0)
    assert not has_signal(group, None)
