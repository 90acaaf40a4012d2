"""The chunked head equals the plain formula, in value and in gradient."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from posttrain.policy import head as heads
from posttrain.policy.head import scored_logprobs


def plain(hidden, linear, targets, temperature):
    log_p = (linear(hidden) / temperature[:, None]).log_softmax(-1)
    return log_p.gather(1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


@pytest.fixture
def inputs(monkeypatch):
    """Seven rows over eleven tokens, in chunks of three rows, float64."""
    monkeypatch.setattr(heads, "CHUNK_LOGITS", 33)
    monkeypatch.setattr(heads, "MIN_CHUNK", 1)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(7, 5, dtype=torch.float64, generator=generator).requires_grad_()
    linear = nn.Linear(5, 11, dtype=torch.float64)
    for parameter in linear.parameters():
        parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    targets = torch.randint(11, (7,), generator=generator)
    return hidden, linear, targets, torch.linspace(0.5, 2.0, 7, dtype=torch.float64)


@pytest.mark.parametrize("frozen", [True, False])
def test_values_and_gradients_equal_the_plain_formula(inputs, frozen):
    hidden, linear, targets, temperature = inputs
    linear.requires_grad_(not frozen)
    wanted = [hidden, *(p for p in linear.parameters() if not frozen)]
    mix = torch.linspace(-1, 1, 7, dtype=torch.float64)

    def total(pair):
        return (mix * pair[0]).sum() + (mix.flip(0) * pair[1]).sum()

    found = scored_logprobs(hidden, linear, targets, temperature, entropy=True)
    expected = plain(hidden, linear, targets, temperature)
    torch.testing.assert_close(found.logprobs, expected[0])
    torch.testing.assert_close(found.entropy, expected[1])
    for ours, theirs in zip(
        torch.autograd.grad(total(found), wanted),
        torch.autograd.grad(total(expected), wanted),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_the_frozen_heads_gradient_passes_gradcheck(inputs):
    hidden, linear, targets, temperature = inputs
    linear.requires_grad_(False)

    def both(h):
        return tuple(scored_logprobs(h, linear, targets, temperature, entropy=True))

    assert torch.autograd.gradcheck(both, (hidden,))


def test_a_sure_token_keeps_its_small_gradient_in_bfloat16():
    """At p = 0.9997 the two halves W_y and pW nearly cancel: rounding each to bf16 would lose the sum."""
    linear = nn.Linear(4, 3, bias=False, dtype=torch.bfloat16).requires_grad_(False)
    linear.weight.copy_(torch.tensor([[8.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]]))
    hidden = torch.tensor([[1.0, -1.0, -1.0, 0.0]], dtype=torch.bfloat16, requires_grad=True)
    scored_logprobs(hidden, linear, torch.tensor([0]), torch.ones(1)).logprobs.sum().backward()
    rest = 2 * torch.exp(torch.tensor(-9.0)) / (1 + 2 * torch.exp(torch.tensor(-9.0)))
    expected = torch.tensor([8.0 * rest, -rest / 2, -rest / 2, 0.0])
    torch.testing.assert_close(hidden.grad[0].float(), expected, rtol=0.01, atol=0)


@pytest.mark.parametrize("frozen", [True, False])
def test_no_scored_row_gives_empty_results(inputs, frozen):
    hidden, linear, targets, temperature = inputs
    linear.requires_grad_(not frozen)
    found = scored_logprobs(hidden[:0], linear, targets[:0], temperature[:0], entropy=True)
    assert found.logprobs.shape == (0,)


def test_full_logits_never_exist(monkeypatch):
    monkeypatch.setattr(heads, "CHUNK_LOGITS", 1000)
    monkeypatch.setattr(heads, "MIN_CHUNK", 1)
    seen = []
    plain_softmax = heads._softmax
    monkeypatch.setattr(heads, "_softmax", lambda h, *rest: seen.append(len(h)) or plain_softmax(h, *rest))
    linear = nn.Linear(4, 100).requires_grad_(False)
    scored_logprobs(torch.zeros(64, 4), linear, torch.zeros(64, dtype=torch.int64), torch.ones(64))
    assert seen == [10] * 6 + [4]


def test_a_large_vocabulary_costs_no_precision():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(64, 32, generator=generator).requires_grad_()
    linear = nn.Linear(32, 49_152, bias=False).requires_grad_(False)
    linear.weight.data = torch.randn(linear.weight.shape, generator=generator)
    targets = torch.randint(49_152, (64,), generator=generator)
    found = scored_logprobs(hidden, linear, targets, torch.ones(64))
    (slope,) = torch.autograd.grad(found.logprobs.sum(), hidden)
    exact = hidden.detach().double().requires_grad_()
    wanted, _ = plain(exact, linear.double(), targets, torch.ones(64, dtype=torch.float64))
    (wanted_slope,) = torch.autograd.grad(wanted.sum(), exact)
    gap = (found.logprobs.double() - wanted).detach()
    assert float(gap.abs().max()) < 1e-5
    assert float(gap.mean().abs()) < 5e-7
    assert float((slope.double() - wanted_slope).abs().max()) < 1e-5 * float(wanted_slope.abs().max())
