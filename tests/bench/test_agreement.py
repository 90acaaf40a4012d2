import pytest
import torch

from posttrain.algorithms.grpo import GRPO
from posttrain.bench.agreement import (
    ANSWERS,
    CLIP_HIGH,
    CLIP_LOW,
    LORA,
    SAME,
    _perturb,
    agree,
    injected,
    loss_and_gradient,
)
from posttrain.models.load import Model, load
from posttrain.models.source import resolve
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy


@pytest.fixture
def policy():
    model = load(Model(source="tiny", dtype="float32", device="cpu", lora=LORA), seed=0)
    _perturb(model)
    return Policy(model, Learner(), AdamW(clip_norm=0.0), total_steps=1)


def test_the_injected_batch_is_off_policy_enough_for_clipping_to_act(policy):
    batch = injected(policy)
    assert batch.num_rows == sum(map(len, ANSWERS))
    ratios = (policy.logprobs(batch) - batch.anchor_logprobs)[batch.mask].exp()
    clipped = (ratios < 1 - CLIP_LOW) | (ratios > 1 + CLIP_HIGH)
    assert 0.2 < clipped.float().mean() < 0.7


def test_the_kept_gradient_is_the_one_that_autograd_gives(policy):
    batch = injected(policy)
    parameters = {n: p for n, p in policy.model.module.named_parameters() if p.requires_grad}
    first = next(iter(parameters))
    before = parameters[first].detach().clone()
    loss, gradient = loss_and_gradient(policy, batch, GRPO(clip_low=CLIP_LOW, clip_high=CLIP_HIGH))
    assert gradient.keys() == parameters.keys()
    assert all(parameter.grad is None for parameter in parameters.values())
    # AdamW's first step moves each entry by the rate, against the gradient's sign.
    moved = parameters[first].detach() - before
    large = gradient[first].abs() > 1e-4
    assert torch.equal(moved[large].sign(), -gradient[first][large].sign())
    assert abs(loss) > 1e-3


@pytest.mark.parametrize("loss", SAME)
def test_loss_and_gradient_are_trl_s(trl, loss):
    (found,) = agree(str(resolve("tiny")), trl, [loss])
    assert found.loss_gap < 1e-5
    assert found.gradient_gap < 1e-5
    assert found.num_parameters == 16384
