"""What an update reports of clipping, asked of the loss itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.cispo import CISPO
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.gspo import GSPO
from posttrain.batch import Batch
from posttrain.contracts.algorithm import example_batch
from posttrain.policy.stats import num_silent
from posttrain.protocols import Algorithm, Outputs, Term


def moved(algorithm: Algorithm) -> tuple[Batch, torch.Tensor]:
    """Return a batch and current log-probabilities that have left the anchor in two of its rows.

    Ratios are 1.246, 1.350 in row 0, which is better than its group, and 0.811, 0.741, 1.350, 1 in row 1,
    which is worse; their geometric means are 1.297 and 0.949. The other rows weigh nothing.
    """
    batch = example_batch()
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    batch = replace(batch, advantages=algorithm.advantages(batch), row_weight=weight)
    assert float(batch.advantages[0, 2]) > 0 > float(batch.advantages[1, 2])
    gaps = torch.zeros(batch.tokens.shape)
    gaps[0, 2:4], gaps[1, 2:6] = torch.tensor([0.22, 0.3]), torch.tensor([-0.21, -0.3, 0.3, 0.0])
    assert batch.anchor_logprobs is not None
    return batch, (batch.anchor_logprobs + gaps).requires_grad_()


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (GRPO(clip_low=0.2, clip_high=0.28), 2),
        (GRPO(clip_low=0.2, clip_high=0.2), 3),
        (GRPO(clip_low=0.18, clip_high=0.2), 4),
        (GRPO(clip_low=0.5, clip_high=0.5), 0),
        (GRPO(clip_low=0.2, clip_high=0.28, kl=0.1, entropy=0.1), 2),  # penalties hide nothing
        (GRPO(clip_low=0.5, clip_high=0.5, correction=Correction(mask_above=1e-9)), 6),
        (GSPO(clip_low=0.2, clip_high=0.2), 2),
        (GSPO(clip_low=0.04, clip_high=0.4), 4),
        (CISPO(clip_low=0.2, clip_high=0.2), 0),
    ],
)
def test_a_token_is_silent_where_the_algorithms_own_rule_says_so(algorithm, expected):
    batch, current = moved(algorithm)
    outputs = Outputs(current, entropy=torch.ones_like(current))
    assert num_silent(algorithm.loss(outputs, batch), current, batch) == expected


def test_all_components_are_asked_where_none_is_named_policy():
    batch, current = moved(GRPO())
    half = torch.where(torch.arange(current.shape[1]) < 4, current, 0.0)
    terms = {"first": Term(half[0].sum(), "rows"), "second": Term(half[1].sum(), "rows")}
    assert num_silent(terms, current, batch) == 2  # the last two tokens of row 1


def test_a_loss_without_any_gradient_is_silent_on_every_token_with_an_advantage():
    batch, current = moved(GRPO())
    assert num_silent({"policy": Term(current.detach().sum(), "rows")}, current, batch) == 6


def test_the_loss_can_still_be_differentiated_afterwards():
    batch, current = moved(GRPO())
    terms = GRPO().loss(Outputs(current), batch)
    num_silent(terms, current, batch)
    terms["policy"].sum.backward()
    assert current.grad is not None
    assert bool((current.grad != 0).any())
