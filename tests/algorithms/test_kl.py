"""KL estimates against exact divergences: every token of a small vocabulary counts with its probability.

A batch has one row for each token of the vocabulary, so an average weighted by the sampler's
probabilities is an expectation without any sampling error.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.kl import ESTIMATES, Divergence, k1, k2, k3

LOG2 = math.log(2.0)
POLICY = torch.tensor([0.3, -1.2, 0.9, 0.0, -0.4], dtype=torch.float64)
REFERENCE = torch.tensor([-0.5, 0.4, 0.2, 1.1, -0.9], dtype=torch.float64).log_softmax(0)
SAMPLER = torch.tensor([0.1, -0.8, 0.3, 0.5, 0.6], dtype=torch.float64).log_softmax(0)


def exact(estimate):
    """Return the gradients of KL(π‖ref), KL(ref‖π) and E_π[estimate] by the logits."""
    gradients = {}
    for name in ("reverse", "forward", "mean"):
        logits = POLICY.clone().requires_grad_()
        logp = logits.log_softmax(0)
        value = {
            "reverse": (logp.exp() * (logp - REFERENCE)).sum(),
            "forward": (REFERENCE.exp() * (REFERENCE - logp)).sum(),
            "mean": (logp.exp() * ESTIMATES[estimate](logp, REFERENCE)).sum(),
        }[name]
        (gradients[name],) = torch.autograd.grad(value, logits)
    return gradients


def one_row_for_each_token(make_batch, sampler):
    batch = make_batch([[0]] * len(POLICY))
    column = lambda values: torch.stack([torch.zeros_like(values), values], 1)  # noqa: E731
    return replace(
        batch,
        sampler_logprobs=column(sampler),
        reference_logprobs=column(REFERENCE),
        anchor_logprobs=column(POLICY.log_softmax(0)),
    )


def loss_gradient(make_batch, divergence, sampler):
    """Return E_sampler[∇ estimate] by the logits."""
    batch = one_row_for_each_token(make_batch, sampler)
    logits = POLICY.clone().requires_grad_()
    logp = logits.log_softmax(0)
    found = divergence.in_loss(torch.stack([torch.zeros_like(logp), logp], 1), batch)
    (gradient,) = torch.autograd.grad((sampler.exp() * found[:, 1]).sum(), logits)
    return gradient


def reward_gradient(make_batch, divergence):
    """Return E_π[estimate ∇ log π]: the pull of a penalty that stands in the reward."""
    batch = one_row_for_each_token(make_batch, POLICY.log_softmax(0))
    logits = POLICY.clone().requires_grad_()
    logp = logits.log_softmax(0)
    penalty = divergence.in_reward(batch)[:, 1]
    assert not penalty.requires_grad
    (gradient,) = torch.autograd.grad((logp.detach().exp() * penalty * logp).sum(), logits)
    return gradient


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_estimates_of_twice_and_half_the_reference():
    """π/π_ref = 2: log 2; ½ log² 2; 1/2 + log 2 − 1. π/π_ref = 1/2: −log 2; ½ log² 2; 2 − log 2 − 1."""
    logprobs, reference = torch.tensor([LOG2, 0.0, 0.0]), torch.tensor([0.0, LOG2, 0.0])
    assert k1(logprobs, reference).tolist() == pytest.approx([LOG2, -LOG2, 0.0])
    assert k2(logprobs, reference).tolist() == pytest.approx([LOG2**2 / 2, LOG2**2 / 2, 0.0])
    assert k3(logprobs, reference).tolist() == pytest.approx([LOG2 - 0.5, 1 - LOG2, 0.0])


def test_k1_and_k3_are_unbiased_and_k2_is_not():
    logp = POLICY.log_softmax(0)
    divergence = float((logp.exp() * (logp - REFERENCE)).sum())
    means = {name: float((logp.exp() * f(logp, REFERENCE)).sum()) for name, f in ESTIMATES.items()}
    assert means["k1"] == pytest.approx(divergence, abs=1e-12)
    assert means["k3"] == pytest.approx(divergence, abs=1e-12)
    assert abs(means["k2"] - divergence) > 0.001


def test_in_the_loss_k1_does_not_pull_at_all(make_batch):
    found = loss_gradient(make_batch, Divergence("k1"), POLICY.log_softmax(0))
    close(found, torch.zeros_like(POLICY))


def test_in_the_loss_k2_pulls_as_the_exact_kl(make_batch):
    found = loss_gradient(make_batch, Divergence("k2"), POLICY.log_softmax(0))
    close(found, exact("k2")["reverse"])


def test_in_the_loss_k3_pulls_as_the_kl_the_other_way_round(make_batch):
    found = loss_gradient(make_batch, Divergence("k3"), POLICY.log_softmax(0))
    close(found, exact("k3")["forward"])
    assert float((found - exact("k3")["reverse"]).abs().max()) > 0.01


@pytest.mark.parametrize("estimate", ["k1", "k3"])
@pytest.mark.parametrize("sampler", [POLICY.log_softmax(0), SAMPLER], ids=["on policy", "older sampler"])
def test_weighted_in_the_loss_k1_and_k3_pull_as_the_exact_kl(make_batch, estimate, sampler):
    found = loss_gradient(make_batch, Divergence(estimate, weighted=True), sampler)
    close(found, exact(estimate)["reverse"])


def test_weighted_in_the_loss_k2_pulls_as_its_own_mean(make_batch):
    found = loss_gradient(make_batch, Divergence("k2", weighted=True), SAMPLER)
    close(found, exact("k2")["mean"])


def test_in_the_reward_k1_pulls_as_the_exact_kl(make_batch):
    close(reward_gradient(make_batch, Divergence("k1", "reward")), exact("k1")["reverse"])


def test_in_the_reward_k2_and_k3_pull_elsewhere(make_batch):
    slopes = exact("k2")
    close(reward_gradient(make_batch, Divergence("k2", "reward")), slopes["mean"] - slopes["reverse"])
    slopes = exact("k3")
    close(reward_gradient(make_batch, Divergence("k3", "reward")), slopes["reverse"] - slopes["forward"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimate", ["k1", "k2", "k3"])
@pytest.mark.parametrize("far", [500.0, -500.0])
def test_estimates_stay_finite_far_from_the_reference(make_batch, estimate, weighted, far):
    batch = make_batch([[0]], dtype=torch.float32)
    logprobs = torch.tensor([[0.0, far]], requires_grad=True)
    found = Divergence(estimate, weighted=weighted).in_loss(logprobs, batch).sum()
    found.backward()
    assert found.isfinite()
    assert logprobs.grad.isfinite().all()


def test_weights_in_the_reward_are_refused():
    with pytest.raises(ValueError, match=r'weighted = true has no meaning in the reward.*place = "loss"'):
        Divergence("k1", "reward", weighted=True)
