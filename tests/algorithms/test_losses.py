"""Ratios and clipping against hand-worked numbers."""

from __future__ import annotations

import math

import pytest
import torch

from posttrain.algorithms import ALGORITHMS
from posttrain.algorithms.losses import MAX_LOG_RATIO, clipped_surrogate, ratio, sequence_ratio

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


def test_a_sequence_ratio_is_the_geometric_mean_over_the_rows_own_tokens(make_batch):
    """Row 0: (2 · 8)^(1/2) = 4; row 1 has one token: 1/2. Padding, however odd, plays no part."""
    batch = make_batch([[0, 0], [0]])
    logprobs = torch.tensor([[9.0, LOG2, 3 * LOG2], [9.0, -LOG2, 9.0]], dtype=torch.float64)
    found = sequence_ratio(logprobs, torch.zeros_like(logprobs), batch)
    assert found[batch.mask].tolist() == pytest.approx([4.0, 4.0, 0.5])


def test_each_token_of_a_sequence_ratio_carries_its_own_gradient(make_batch):
    batch = make_batch([[0, 0]])
    logprobs = torch.tensor([[0.0, LOG2, 3 * LOG2]], dtype=torch.float64, requires_grad=True)
    sequence_ratio(logprobs, torch.zeros_like(logprobs), batch)[0, 2].backward()
    assert logprobs.grad.tolist() == [[0.0, 0.0, pytest.approx(4.0)]]


def test_an_extreme_sequence_ratio_is_finite_and_its_gradient_is_0(make_batch):
    batch = make_batch([[0, 0]])
    logprobs = torch.tensor([[0.0, 100.0, 0.0]], dtype=torch.float64, requires_grad=True)
    found = sequence_ratio(logprobs, torch.zeros_like(logprobs), batch)
    found.sum().backward()
    assert found[0, 1:].tolist() == pytest.approx([math.exp(MAX_LOG_RATIO)] * 2)
    assert logprobs.grad.tolist() == [[0.0, 0.0, 0.0]]


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
