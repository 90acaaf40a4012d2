"""Baselines and normalisation against hand-worked numbers and their invariances."""

from __future__ import annotations

import pytest
import torch

from posttrain.algorithms.advantages import (
    centred,
    leave_one_out,
    over_batch,
    over_tokens,
    plain,
    standardised,
    varied,
)
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn, Unjudged

GROUPS = torch.tensor([0, 0, 0, 7, 7, 7])
REWARDS = torch.tensor([1.0, 0.0, 0.0, 0.5, 0.25, 0.0])
ALL = [centred, leave_one_out, standardised]


def test_centred_subtracts_the_groups_mean():
    expected = torch.tensor([2 / 3, -1 / 3, -1 / 3, 0.25, 0.0, -0.25])
    torch.testing.assert_close(centred(REWARDS, GROUPS), expected)


def test_leave_one_out_subtracts_the_others_mean():
    """1 − 0, 0 − 1/2, 0 − 1/2; 1/2 − 1/8, 1/4 − 1/4, 0 − 3/8."""
    expected = torch.tensor([1.0, -0.5, -0.5, 0.375, 0.0, -0.375])
    torch.testing.assert_close(leave_one_out(REWARDS, GROUPS), expected)


def test_standardised_divides_by_the_population_deviation():
    """Group 0: deviations (2, −1, −1)/3, variance 2/9, so (2, −1, −1)/√2; group 7: (1, 0, −1)·√(3/2)."""
    two, wide = 2**0.5, 1.5**0.5
    expected = torch.tensor([2 / two, -1 / two, -1 / two, wide, 0.0, -wide])
    torch.testing.assert_close(standardised(REWARDS, GROUPS), expected)


@pytest.mark.parametrize("advantage", ALL)
@pytest.mark.parametrize("reward", [0.1, 1 / 3, 1e-12, 1e12])
def test_equal_rewards_give_exactly_0_though_their_mean_is_rounded(advantage, reward):
    assert advantage(torch.full((7,), reward), torch.zeros(7, dtype=torch.int64)).tolist() == [0.0] * 7


@pytest.mark.parametrize("advantage", ALL)
def test_a_row_alone_has_no_advantage(advantage):
    assert advantage(torch.tensor([3.0]), torch.tensor([0])).tolist() == [0.0]


def test_standardised_is_free_of_scale_and_the_others_keep_it():
    torch.testing.assert_close(standardised(REWARDS * 1e-6, GROUPS), standardised(REWARDS, GROUPS))
    torch.testing.assert_close(centred(REWARDS * 64, GROUPS), centred(REWARDS, GROUPS) * 64)
    torch.testing.assert_close(leave_one_out(REWARDS * 64, GROUPS), leave_one_out(REWARDS, GROUPS) * 64)


@pytest.mark.parametrize("advantage", ALL)
def test_groups_do_not_see_each_other(advantage):
    alone = torch.cat([advantage(REWARDS[:3], GROUPS[:3]), advantage(REWARDS[3:], GROUPS[3:])])
    torch.testing.assert_close(advantage(REWARDS, GROUPS), alone)


def test_over_tokens_is_0_outside_the_mask():
    mask = torch.tensor([[False, True, True], [False, True, False]])
    assert over_tokens(torch.tensor([2.0, -1.0]), mask).tolist() == [[0.0, 2.0, 2.0], [0.0, -1.0, 0.0]]


def test_over_batch_standardises_the_scored_tokens_of_all_rows():
    """1, 1, 4 have mean 2 and population variance 2; what is not scored (9) does not count."""
    mask = torch.tensor([[False, True, True], [False, True, False]])
    found = over_batch(torch.tensor([[9.0, 1.0, 1.0], [9.0, 4.0, 9.0]]), mask)
    root = 2**0.5
    torch.testing.assert_close(found, torch.tensor([[0.0, -1 / root, -1 / root], [0.0, 2 / root, 0.0]]))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-12, 1e12])
def test_over_batch_gives_exactly_0_where_all_tokens_are_equal(value):
    mask = torch.tensor([[True] * 7 + [False]])
    assert over_batch(torch.full((1, 8), value), mask).tolist() == [[0.0] * 8]


def test_plain_compares_nothing():
    assert torch.equal(plain(REWARDS, GROUPS), REWARDS)


@pytest.mark.parametrize(
    ("verdicts", "signal"),
    [
        ([Reward(1.0), Reward(0.0)], True),
        ([Reward(1.0), Reward(1.0)], False),
        ([Reward(1.0), Unjudged("infra", "down")], False),
        ([Reward(1.0), Unjudged("infra", "down"), Reward(0.5)], True),
        ([Reward(1.0)], False),
    ],
)
def test_a_group_has_signal_if_two_judged_rewards_differ(verdicts, signal):
    task = Task("t", "d", 0, (), {})
    attempt = Trajectory(task, (Turn(Message("user", "?"), (1,)),), "stop")
    assert varied(Group(0, task, (attempt,) * len(verdicts), tuple(verdicts))) is signal
