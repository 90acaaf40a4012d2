"""AdamW against hand-worked steps and torch's own; schedules against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from posttrain.errors import ConfigError
from posttrain.policy.optimizer import AdamW, Optimizer
from posttrain.policy.schedule import learning_rate_factor


def stepped(settings, gradients, start=(1.0, -2.0)):
    parameter = nn.Parameter(torch.tensor(start))
    optimizer = Optimizer(settings, [("w", parameter)], total_steps=len(gradients))
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step(optimizer.gradient_norm())
    return parameter.detach(), optimizer


def test_the_first_step_moves_by_the_learning_rate_and_decays_the_weight():
    """m̂ = g and v̂ = g², so the step is lr · sign(g), after w shrinks by 1 − lr · decay = 0.99."""
    found, _ = stepped(AdamW(learning_rate=0.1, weight_decay=0.1, clip_norm=0.0), [(3.0, -0.5)])
    torch.testing.assert_close(found, torch.tensor([0.99 - 0.1, -1.98 + 0.1]), atol=1e-5, rtol=0)


def test_steps_equal_torchs_adamw_on_clipped_gradients():
    gradients = [(3.0, 4.0), (0.03, 0.04), (-30.0, 0.0)]
    found, _ = stepped(AdamW(learning_rate=0.1, betas=(0.9, 0.99), clip_norm=1.0), gradients)
    peer = nn.Parameter(torch.tensor([1.0, -2.0]))
    adamw = torch.optim.AdamW([peer], lr=0.1, betas=(0.9, 0.99), weight_decay=0.0)
    for clipped in [(0.6, 0.8), (0.03, 0.04), (-1.0, 0.0)]:
        peer.grad = torch.tensor(clipped)
        adamw.step()
    torch.testing.assert_close(found, peer.detach())


def test_the_gradient_norm_is_global():
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(2))
    optimizer = Optimizer(AdamW(), [("a", first), ("b", second)], 1)
    first.grad, second.grad = torch.tensor([2.0]), torch.tensor([3.0, 6.0])
    assert optimizer.gradient_norm() == pytest.approx(7.0)


def test_state_of_another_model_is_refused():
    _, optimizer = stepped(AdamW(), [(1.0, 1.0)])
    tensors, numbers = optimizer.state_dict()
    other = Optimizer(AdamW(), [("v", nn.Parameter(torch.zeros(2)))], 1)
    with pytest.raises(ConfigError, match="does not fit the model"):
        other.load_state_dict(tensors, numbers)


def test_a_model_without_trainable_parameters_is_refused():
    with pytest.raises(ConfigError, match="no trainable parameter"):
        Optimizer(AdamW(), [("w", nn.Parameter(torch.zeros(1), requires_grad=False))], 1)


def test_warm_up_rises_to_1_and_never_trains_at_0():
    assert [learning_rate_factor(s, 10, warmup_steps=4) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_from_1_to_its_final_share_on_the_last_step():
    """Six steps, two of warm-up: 1, then thirds of the way from 1 to 0.1."""
    factors = [learning_rate_factor(s, 6, warmup_steps=2, schedule="linear", final=0.1) for s in range(2, 8)]
    assert factors == pytest.approx([1.0, 0.7, 0.4, 0.1, 0.1, 0.1])


def test_cosine_is_half_way_in_the_middle():
    factors = [learning_rate_factor(s, 5, schedule="cosine") for s in range(5)]
    half = math.sqrt(0.5)
    assert factors == pytest.approx([1.0, (1 + half) / 2, 0.5, (1 - half) / 2, 0.0])
