"""Weights and masks between sampler, anchor and current policy against hand-worked numbers.

Row 0 has two tokens, row 1 one; anchor/sampler is 1/2 and 8 in row 0, 3 in row 1: the whole answers'
ratios are 4 and 3, their geometric means 2 and 3.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.losses import MAX_LOG_RATIO

ANCHOR = torch.tensor([[0.0, math.log(1 / 2), math.log(8)], [0.0, math.log(3), 0.0]], dtype=torch.float64)


@pytest.fixture
def batch(make_batch):
    return make_batch([[0, 0], [0]])


def weights(batch, cap, *, current=ANCHOR, anchor=ANCHOR, own="token", **settings):
    found = Correction(**settings).weights(current, anchor, batch, cap, own)
    assert not found.requires_grad
    return found[batch.mask].tolist()


@pytest.mark.parametrize(
    ("level", "expected"),
    [("token", [0.5, 2.5, 2.5]), ("sequence", [2.5, 2.5, 2.5]), ("geometric", [2.0, 2.0, 2.5])],
)
def test_the_weight_is_the_ratio_cut_at_the_cap(batch, level, expected):
    assert weights(batch, 2.5, level=level) == pytest.approx(expected)


def test_a_cap_of_0_gives_ones(batch):
    assert weights(batch, 0.0) == [1.0, 1.0, 1.0]


def test_the_algorithms_own_level_holds_where_none_is_set(batch):
    assert weights(batch, 9.0, own="geometric") == pytest.approx([2.0, 2.0, 3.0])
    assert weights(batch, 9.0, own="geometric", level="token") == pytest.approx([0.5, 8.0, 3.0])
    assert weights(batch, 0.0, own="sequence", mask_above=3.5) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"mask_above": 5.0}, [1.0, 0.0, 1.0]),
        ({"mask_below": 1.0}, [0.0, 1.0, 1.0]),
        ({"mask_below": 1.0, "mask_above": 5.0}, [0.0, 0.0, 1.0]),
        ({"mask_above": 3.5, "mask_level": "sequence"}, [0.0, 0.0, 1.0]),
        ({"mask_below": 2.5, "mask_level": "geometric"}, [0.0, 0.0, 1.0]),
        ({"mask_below": 0.5, "mask_above": 8.0}, [1.0, 1.0, 1.0]),  # bounds belong to what is kept
    ],
)
def test_a_mask_drops_what_is_outside_its_bounds(batch, settings, expected):
    assert weights(batch, 0.0, **settings) == expected


def test_weight_and_mask_have_levels_of_their_own(batch):
    assert weights(batch, 2.5, mask_level="sequence", mask_above=3.5) == pytest.approx([0.0, 0.0, 2.5])


def test_the_shift_mask_drops_what_has_already_moved_its_advantages_way(make_batch):
    """From probability 1/2 at sampling: moves by +1/4, −1/4 and +1/8 under advantages of both signs."""
    batch = make_batch([[0, 0, 0], [0, 0, 0]])
    batch = replace(
        batch,
        sampler_logprobs=torch.where(batch.mask, math.log(1 / 2), 0.0).double(),
        advantages=torch.tensor([[0.0, 1.0, 1.0, 1.0], [0.0, -2.0, -2.0, -2.0]], dtype=torch.float64),
    )
    current = torch.tensor([[1.0, 3 / 4, 1 / 4, 5 / 8]] * 2, dtype=torch.float64).log()
    found = weights(batch, 0.0, current=current, anchor=batch.sampler_logprobs, max_shift=0.2)
    assert found == [0.0, 1.0, 1.0, 1.0, 0.0, 1.0]


def test_extreme_distances_give_finite_weights(batch):
    far = torch.where(batch.mask, 500.0, 0.0).double()
    assert weights(batch, 1e30, anchor=far, level="sequence") == pytest.approx([math.exp(MAX_LOG_RATIO)] * 3)
    assert weights(batch, 1e30, anchor=-far, level="sequence") == pytest.approx(
        [math.exp(-MAX_LOG_RATIO)] * 3
    )


def test_bounds_that_drop_everything_are_refused():
    with pytest.raises(ValueError, match=r"mask_above = 1.0 is below mask_below = 2.0.*Swap them"):
        Correction(mask_below=2.0, mask_above=1.0)
