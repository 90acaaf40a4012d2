"""What penalties ask for, what they take from rewards, and what they add to a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.penalties import needed, penalised, penalties
from posttrain.protocols import Outputs


@pytest.mark.parametrize(
    ("kl", "divergence", "entropy", "needs"),
    [
        (0.0, Divergence(), 0.0, set()),
        (0.0, Divergence("k1", "reward"), 0.0, set()),
        (0.1, Divergence(), 0.0, {"reference"}),
        (0.1, Divergence("k1", "reward"), 0.0, {"reference", "anchor"}),
        (0.1, Divergence(), 0.1, {"reference", "entropy"}),
    ],
)
def test_only_what_is_read_is_asked_for(kl, divergence, entropy, needs):
    assert needed(kl, divergence, entropy) == needs


def test_the_reward_loses_the_summed_divergence_of_its_row(make_batch):
    """log(anchor/reference) is 1 and 2 in row 0 and 4 in row 1; 100 on a prompt token plays no part."""
    batch = make_batch([[0, 0], [0]], rewards=[1.0, 1.0])
    anchor = torch.tensor([[100.0, 1.0, 2.0], [100.0, 4.0, 100.0]], dtype=torch.float64)
    batch = replace(batch, anchor_logprobs=anchor)
    assert penalised(batch.rewards, batch, 0.5, Divergence("k1", "reward")).tolist() == [-0.5, -1.0]
    assert penalised(batch.rewards, batch, 0.5, Divergence("k1", "loss")) is batch.rewards
    assert penalised(batch.rewards, batch, 0.0, Divergence("k1", "reward")) is batch.rewards


def test_an_entropy_bonus_lowers_the_loss_by_coefficient_times_entropy(make_batch):
    batch = make_batch([[0, 0]])
    outputs = Outputs(batch.sampler_logprobs, entropy=torch.tensor([[0.0, 2.0, 3.0]]))
    found = penalties(outputs, batch, 0.0, Divergence(), 0.25)
    assert found.keys() == {"entropy"}
    assert found["entropy"].tolist() == [[0.0, -0.5, -0.75]]


def test_a_penalty_in_the_reward_is_no_component_of_the_loss(make_batch):
    batch = make_batch([[0, 0]])
    outputs = Outputs(batch.sampler_logprobs)
    assert penalties(outputs, batch, 0.5, Divergence("k1", "reward"), 0.0) == {}
    assert penalties(outputs, batch, 0.5, Divergence("k1"), 0.0).keys() == {"kl"}
