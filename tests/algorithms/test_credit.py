"""Returns of turns, what they are compared with, and the punishment of length."""

from __future__ import annotations

import random

import pytest
import torch

from posttrain.algorithms.advantages import centred, leave_one_out, plain, standardised
from posttrain.algorithms.credit import Overlong, credited, has_signal, returns_to_go, to_go
from posttrain.batch import Batch
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn, Unjudged

TURNS = [[0, 0, -1, 1, -1, 2], [0, -1, 1, 1], [0]]
"""Three, two and one turns, observations (-1) between them."""


def test_a_turn_returns_its_own_reward_and_the_discounted_rest(make_batch):
    """γ = 1/2. Row 0: G₂ = 3 + 8 = 11, G₁ = 2 + 11/2 = 7.5, G₀ = 1 + 7.5/2 = 4.75.

    Row 1: G₁ = 4 + 2 = 6, G₀ = −1 + 3 = 2, then its outcome 2. Row 2: 0 + 5, then 5.
    """
    batch = make_batch(TURNS, rewards=[8.0, 2.0, 5.0], turn_rewards=[[1, 2, 3], [-1, 4], [0]])
    expected = [[4.75, 7.5, 11.0], [2.0, 6.0, 2.0], [5.0, 5.0, 5.0]]
    assert returns_to_go(batch.rewards, batch, 0.5).tolist() == expected


def test_each_turn_is_compared_with_the_group_at_the_same_turn(make_batch):
    """Columns of the returns above less their means 47/12, 37/6 and 6, on each turn's tokens alone."""
    batch = make_batch(TURNS, rewards=[8.0, 2.0, 5.0], turn_rewards=[[1, 2, 3], [-1, 4], [0]])
    found = credited(centred, batch.rewards, batch, 0.5)
    first, second = [4.75 - 47 / 12, 2 - 47 / 12, 5 - 47 / 12], [7.5 - 37 / 6, 6 - 37 / 6]
    expected = [
        [0, first[0], first[0], 0, second[0], 0, 5.0],
        [0, first[1], 0, second[1], second[1], 0, 0],
        [0, first[2], 0, 0, 0, 0, 0],
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("standing", [centred, leave_one_out, standardised, plain])
def test_without_process_rewards_and_discount_turns_change_nothing(make_batch, standing):
    batch = make_batch([*TURNS, [0, 0]], rewards=[1.0, 0.0, 0.3, 0.0], group=[0, 0, 1, 1])
    whole = credited(standing, batch.rewards, batch, None)
    torch.testing.assert_close(credited(standing, batch.rewards, batch, 1.0), whole, rtol=0, atol=0)


def test_a_discount_favours_the_shorter_of_equal_outcomes(make_batch):
    batch = make_batch([[0, -1, 1], [0]], rewards=[1.0, 1.0])
    found = credited(centred, batch.rewards, batch, 0.5)
    assert found[:, 1].tolist() == [-0.25, 0.25]


def test_the_length_of_a_turn_is_not_discounted(make_batch):
    batch = make_batch([[0] * 9 + [1], [0, 1]], rewards=[1.0, 0.0])
    assert len(set(credited(plain, batch.rewards, batch, 0.9)[0, 1:10].tolist())) == 1


def test_equal_rewards_in_equal_turns_give_exactly_0(make_batch):
    batch = make_batch(
        [[0, -1, 1, -1, 2]] * 3, rewards=[0.1] * 3, turn_rewards=[[0.1, 0.7, 0.3]] * 3, dtype=torch.float32
    )
    for standing in (centred, leave_one_out, standardised):
        assert bool((credited(standing, batch.rewards, batch, 0.9) == 0).all())


def test_to_go_adds_up_what_follows():
    assert to_go(torch.tensor([[0.0, 1.0, 2.0, 4.0]])).tolist() == [[7.0, 7.0, 6.0, 4.0]]


@pytest.mark.parametrize(
    ("length", "expected"), [(1, 0.0), (6, 0.0), (7, -0.25), (8, -0.5), (10, -1.0), (12, -1.0)]
)
def test_overlong_answers_are_punished_in_a_straight_line(make_batch, length, expected):
    batch = make_batch([[0] * length, [0]])
    assert Overlong(max_tokens=10, buffer=4).penalty(batch).tolist() == [expected, 0.0]


def test_overlong_counts_what_the_policy_wrote_and_nothing_else(make_batch):
    batch = make_batch([[0, -1, -1, -1, 1]])
    assert Overlong(max_tokens=4, buffer=4).penalty(batch).tolist() == [-0.5]


def test_a_buffer_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"buffer = 5 is longer than max_tokens = 4"):
        Overlong(max_tokens=4, buffer=5)


# --- which groups teach something ------------------------------------------------------------------

TASK = Task("t", "d", 0, (), {})


def attempt(num_turns: int) -> Trajectory:
    prompt = Turn(Message("user", "?"), (1, 2))
    written = Turn(Message("assistant", "!"), (3, 4), (-1.0, -1.0), 0)
    seen = Turn(Message("tool", "."), (5,))
    turns = [turn for _ in range(num_turns) for turn in (written, seen)][:-1]
    return Trajectory(TASK, (prompt, *turns), "stop")


def group_of(*attempts: tuple[int, Reward | Unjudged]) -> Group:
    trajectories = tuple(attempt(count) for count, _ in attempts)
    return Group(0, TASK, trajectories, tuple(verdict for _, verdict in attempts))


def test_equal_outcomes_with_different_process_rewards_are_kept_if_turns_count():
    group = group_of((2, Reward(1.0, by_turn=(1.0, 0.0))), (2, Reward(1.0, by_turn=(0.0, 1.0))))
    assert not has_signal(group, None)
    assert has_signal(group, 1.0)
    assert has_signal(group, 0.0)


def test_equal_outcomes_after_different_numbers_of_turns_are_kept_if_discounted():
    group = group_of((2, Reward(1.0)), (1, Reward(1.0)))
    assert not has_signal(group, 1.0)
    assert has_signal(group, 0.9)
    assert not has_signal(group_of((2, Reward(0.0)), (1, Reward(0.0))), 0.9)


def test_what_nobody_judged_or_compares_is_not_kept():
    lone = (2, Reward(1.0, by_turn=(1.0, 0.0)))
    assert not has_signal(group_of(lone), 1.0)
    assert not has_signal(group_of(lone, (2, Unjudged("infra", "down"))), 1.0)
    assert not has_signal(group_of((2, Unjudged("infra", "down"))), 1.0)


def test_what_is_kept_is_what_has_advantages():
    """On random groups: `has_signal`, in plain numbers, agrees with the returns in tensors."""
    rng = random.Random(0)
    kept = 0
    for _ in range(200):
        counts = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
        by_turn = [tuple(rng.choice([0.0, 0.5]) for _ in range(n)) for n in counts]
        rewards = [Reward(rng.choice([0.0, 1.0]), by_turn=rng.choice([(), own])) for own in by_turn]
        group, gamma = group_of(*zip(counts, rewards, strict=True)), rng.choice([0.0, 0.5, 1.0])
        batch = Batch.of([group])
        returns = returns_to_go(batch.rewards.double(), batch, gamma)
        differs = bool((returns != returns[:1]).any())
        assert has_signal(group, gamma) is differs
        kept += differs
    assert 50 < kept < 190
