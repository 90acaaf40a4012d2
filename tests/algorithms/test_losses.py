"""Ratios, clipping, corrections and divergences against hand-worked numbers."""

from __future__ import annotations

import math

import pytest
import torch

from posttrain.algorithms import ALGORITHMS
from posttrain.algorithms.losses import MAX_LOG_RATIO, clipped_surrogate, k3, ratio, truncated_correction

LOG2 = math.log(2.0)


@pytest.mark.parametrize(
    ("ratios", "advantage", "expected"),
    [
        (1.5, 1.0, 1.28),  # gains above 1 + high are cut
        (1.5, -1.0, -1.5),  # losses there are not
        (0.5, 1.0, 0.5),
        (0.5, -1.0, -0.8),  # a token already made unlikely is pushed no further
        (1.1, 2.0, 2.2),
    ],
)
def test_the_surrogate_is_the_lesser_of_plain_and_clipped(ratios, advantage, expected):
    found = clipped_surrogate(torch.tensor(ratios), torch.tensor(advantage), 0.2, 0.28)
    assert float(found) == pytest.approx(expected)


def test_a_clipped_token_has_no_gradient():
    ratios = torch.tensor([1.5, 1.5, 0.5, 0.5, 1.0], requires_grad=True)
    clipped_surrogate(ratios, torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0]), 0.2, 0.28).sum().backward()
    assert ratios.grad.tolist() == [0.0, -1.0, 1.0, 0.0, 1.0]


def test_the_correction_is_truncated_and_detached():
    anchor = torch.tensor([0.0, LOG2, 3 * LOG2], requires_grad=True)
    found = truncated_correction(anchor, torch.tensor([LOG2, 0.0, 0.0]), cap=4.0)
    assert found.tolist() == pytest.approx([0.5, 2.0, 4.0])
    assert not found.requires_grad
    assert truncated_correction(anchor, torch.zeros(3), cap=0).tolist() == [1.0, 1.0, 1.0]


def test_k3_is_0_for_equal_policies_and_1_minus_log_2_for_twice_the_reference():
    """π_ref/π = 2: 2 − log 2 − 1; = 1/2: 1/2 + log 2 − 1."""
    found = k3(torch.tensor([0.0, 0.0, LOG2]), torch.tensor([0.0, LOG2, 0.0]))
    assert found.tolist() == pytest.approx([0.0, 1 - LOG2, LOG2 - 0.5])


def test_extreme_ratios_are_finite_and_their_gradient_is_0():
    logprobs = torch.tensor([-1e4, 1e4], requires_grad=True)
    found = ratio(logprobs, torch.zeros(2))
    found.sum().backward()
    assert found.tolist() == pytest.approx([math.exp(-MAX_LOG_RATIO), math.exp(MAX_LOG_RATIO)], rel=1e-5)
    assert logprobs.grad.tolist() == [0.0, 0.0]


def test_every_short_name_leads_to_its_class():
    import importlib

    for target in ALGORITHMS.values():
        module, _, name = target.partition(":")
        assert getattr(importlib.import_module(module), name)().advantages
