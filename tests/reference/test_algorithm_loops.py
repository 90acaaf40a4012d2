"""Each algorithm's loss and gradient in float64 beside its paper's formula, written as loops over numbers.

The batch is random: rows of unequal lengths with observations between turns, groups of unequal sizes,
row weights, process rewards, and current, anchor, sampler and reference far apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

import pytest
import torch

from posttrain.algorithms.cispo import CISPO
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import Overlong
from posttrain.algorithms.dapo import DAPO
from posttrain.algorithms.dr_grpo import DrGRPO
from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.gspo import GSPO
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.reinforce_pp import ReinforcePP
from posttrain.algorithms.rloo import RLOO
from posttrain.batch import Batch
from posttrain.protocols import Outputs

GROUP = [0, 0, 0, 1, 1, 2, 2, 2, 2]
TURNS = [
    [0, 0, -1, 1], [0], [0, -1, 1, 1, -1, 2], [0, 0, 0], [0, 0],
    [0, -1, -1, 1], [0, -1, 1], [0, 0], [0, -1, 1, 1],
]  # fmt: skip


@dataclass
class Row:
    """One attempt as plain numbers: one entry for each token that the policy wrote."""

    group: int
    weight: float
    reward: float
    turn: list[int]
    process: dict[int, float]
    current: list[torch.Tensor]
    anchor: list[float]
    sampler: list[float]
    reference: list[float]
    entropy: list[torch.Tensor]
    advantage: list[float]

    @property
    def places(self) -> range:
        return range(len(self.turn))


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(7)
    width = 1 + max(map(len, TURNS))
    turn = torch.tensor([[-1, *row, *[-1] * (width - 1 - len(row))] for row in TURNS])
    mask, shape = turn >= 0, turn.shape

    def noise(scale):
        return torch.randn(shape, generator=generator, dtype=torch.float64) * scale

    current = -1.5 + noise(0.5)
    last = torch.stack([turn == t for t in range(3)]).double()
    process = torch.zeros(shape, dtype=torch.float64)
    for t in range(3):
        for row in range(len(TURNS)):
            if last[t, row].any():
                process[row, int(last[t, row].nonzero().max())] = float(noise(1.0)[0, 0])
    return Batch(
        tokens=torch.ones(shape, dtype=torch.int64),
        mask=mask,
        turn=turn,
        sampler_logprobs=torch.where(mask, current + noise(0.8), 0.0),
        rewards=torch.randn(len(TURNS), generator=generator, dtype=torch.float64),
        turn_rewards=process,
        advantages=torch.zeros(shape, dtype=torch.float64),
        lengths=torch.tensor([1 + len(row) for row in TURNS]),
        prompt_lengths=torch.ones(len(TURNS), dtype=torch.int64),
        group=torch.tensor(GROUP),
        domain=torch.zeros(len(TURNS), dtype=torch.int64),
        temperature=torch.ones(len(TURNS)),
        row_weight=0.5 + torch.rand(len(TURNS), generator=generator, dtype=torch.float64),
        anchor_logprobs=torch.where(mask, current + noise(0.3), 0.0),
        reference_logprobs=torch.where(mask, current + noise(0.4), 0.0),
        values=torch.where(mask, current, 0.0),  # where this module keeps the current log-probabilities
    )


def rows_of(batch: Batch, current: torch.Tensor, entropy: torch.Tensor) -> list[Row]:
    rows = []
    for i in range(batch.num_rows):
        at = batch.mask[i].nonzero()[:, 0].tolist()
        turn = batch.turn[i, at].tolist()
        rows.append(
            Row(
                group=int(batch.group[i]),
                weight=float(batch.row_weight[i]),
                reward=float(batch.rewards[i]),
                turn=turn,
                process={t: float(batch.turn_rewards[i, batch.turn[i] == t].sum()) for t in turn},
                current=[current[i, t] for t in at],
                anchor=batch.anchor_logprobs[i, at].tolist(),
                sampler=batch.sampler_logprobs[i, at].tolist(),
                reference=batch.reference_logprobs[i, at].tolist(),
                entropy=[entropy[i, t] for t in at],
                advantage=[],
            )
        )
    return rows


# --- the papers' formulas, token by token --------------------------------------------------------------


def peers(rows, row):
    return [other for other in rows if other.group == row.group]


def give(rows, advantage):
    for row in rows:
        row.advantage = [advantage(row)] * len(row.turn)


def standardise(rows, value=lambda row: row.reward):
    def advantage(row):
        values = [value(other) for other in peers(rows, row)]
        return (value(row) - fmean(values)) / pstdev(values)

    give(rows, advantage)


def centre(rows, value=lambda row: row.reward):
    give(rows, lambda row: value(row) - fmean(value(other) for other in peers(rows, row)))


def clipped(ratio, advantage, low, high):
    number = float(ratio.detach())
    plain, cut = number * advantage, min(max(number, 1 - low), 1 + high) * advantage
    return ratio * advantage if plain <= cut else torch.tensor(cut, dtype=torch.float64)


def token_ratio(row, t):
    return (row.current[t] - row.anchor[t]).exp()


def token_weight(row, t, cap=2.0):
    return min(math.exp(row.anchor[t] - row.sampler[t]), cap)


def ppo(row, t, low=0.2, high=0.28):
    return token_weight(row, t) * clipped(token_ratio(row, t), row.advantage[t], low, high)


def over_tokens(rows, value):
    total = sum(row.weight * value(row, t) for row in rows for t in row.places)
    return -total / sum(len(row.turn) for row in rows)


def over_rows(rows, value):
    return -sum(row.weight / len(row.turn) * value(row, t) for row in rows for t in row.places) / len(rows)


def grpo(rows):
    standardise(rows)
    return {"policy": over_rows(rows, ppo)}


def grpo_with_everything(rows):
    """k3 in the loss with weights, an entropy bonus, geometric rejection, and the shift mask."""
    centre(rows)

    def kept(row, t):
        mean = math.exp(fmean(a - s for a, s in zip(row.anchor, row.sampler, strict=True)))
        moved = math.exp(float(row.current[t].detach())) - math.exp(row.sampler[t])
        sign = (row.advantage[t] > 0) - (row.advantage[t] < 0)
        return 0.9 <= mean <= 1.3 and moved * sign <= 0.05

    def divergence(row, t):
        gap = row.reference[t] - row.current[t]
        return 0.3 * (row.current[t] - row.sampler[t]).exp() * (gap.exp() - gap - 1)

    return {
        "policy": over_rows(rows, lambda row, t: ppo(row, t) if kept(row, t) else 0.0 * row.current[t]),
        "kl": -over_rows(rows, divergence),
        "entropy": over_rows(rows, lambda row, t: 0.1 * row.entropy[t]),
    }


def dr_grpo(rows):
    centre(rows)
    total = sum(row.weight * ppo(row, t) / 5 for row in rows for t in row.places)
    return {"policy": -total / len(rows)}


def rloo_with_kl_in_the_reward(rows):
    def value(row):
        return row.reward - 0.2 * sum(a - r for a, r in zip(row.anchor, row.reference, strict=True))

    def advantage(row):
        others = [value(other) for other in peers(rows, row) if other is not row]
        return value(row) - fmean(others)

    give(rows, advantage)

    def score(row, t):
        answer = sum(float(c.detach()) - s for c, s in zip(row.current, row.sampler, strict=True))
        return min(math.exp(answer), 2.0) * row.advantage[t] * row.current[t]

    return {"policy": over_tokens(rows, score)}


def dapo(rows):
    def shaped(row):
        length = len(row.turn)
        over = 0.0 if length <= 2 else (2 - length) / 2 if length <= 4 else -1.0
        return row.reward + over

    standardise(rows, shaped)
    return {"policy": over_tokens(rows, ppo)}


def gspo(rows):
    """Eq. 5: one ratio and one advantage for the whole answer."""
    standardise(rows)

    def mean(numbers):
        return sum(numbers) / len(numbers)

    def answer(row):
        ratio = mean([c - a for c, a in zip(row.current, row.anchor, strict=True)]).exp()
        weight = min(math.exp(mean([a - s for a, s in zip(row.anchor, row.sampler, strict=True)])), 2.0)
        return weight * clipped(ratio, row.advantage[0], 0.1, 0.15)

    return {"policy": -sum(row.weight * answer(row) for row in rows) / len(rows)}


def cispo(rows):
    standardise(rows)

    def score(row, t):
        ratio = min(max(float(token_ratio(row, t).detach()), 0.8), 1.2)
        return token_weight(row, t) * ratio * row.advantage[t] * row.current[t]

    return {"policy": over_tokens(rows, score)}


def normalise_over_tokens(rows):
    values = [value for row in rows for value in row.advantage]
    mean, deviation = fmean(values), pstdev(values)
    for row in rows:
        row.advantage = [(value - mean) / deviation for value in row.advantage]


def reinforce_pp(rows):
    for row in rows:
        row.advantage = [
            row.reward - 0.2 * sum(row.anchor[s] - row.reference[s] for s in row.places if s >= t)
            for t in row.places
        ]
    normalise_over_tokens(rows)
    return {"policy": over_tokens(rows, lambda row, t: ppo(row, t, 0.2, 0.2))}


def reinforce_pp_baseline(rows):
    """With the variant's own KL: k2 in the loss."""
    centre(rows)
    normalise_over_tokens(rows)
    return {
        "policy": over_tokens(rows, lambda row, t: ppo(row, t, 0.2, 0.2)),
        "kl": -over_tokens(rows, lambda row, t: 0.3 * 0.5 * (row.current[t] - row.reference[t]) ** 2),
    }


def turns_to_go(row, gamma, num_turns):
    own = max(row.turn) + 1
    returns = [row.reward] * num_turns
    for turn in range(own):
        returns[turn] = sum(gamma ** (later - turn) * row.process[later] for later in range(turn, own))
        returns[turn] += gamma ** (own - 1 - turn) * row.reward
    return returns


def grpo_by_turn(rows):
    returns = {id(row): turns_to_go(row, 0.7, 3) for row in rows}
    for row in rows:
        same = [returns[id(other)] for other in peers(rows, row)]
        row.advantage = [
            (returns[id(row)][turn] - fmean(r[turn] for r in same)) / pstdev([r[turn] for r in same])
            for turn in row.turn
        ]
    return {"policy": over_rows(rows, ppo)}


def gspo_token_by_turn(rows):
    """Eq. 13 and 14: one ratio for the whole answer, advantages of its turns."""
    grpo_by_turn(rows)

    def token(row, t):
        mean = fmean(float(c.detach()) - a for c, a in zip(row.current, row.anchor, strict=True))
        ratio = math.exp(mean) * (row.current[t] - row.current[t].detach()).exp()
        weight = min(math.exp(fmean(a - s for a, s in zip(row.anchor, row.sampler, strict=True))), 2.0)
        return weight * clipped(ratio, row.advantage[t], 0.1, 0.15)

    return {"policy": over_rows(rows, token)}


CASES = [
    (GRPO(), grpo),
    (
        GRPO(
            normalise=False, kl=0.3, divergence=Divergence("k3", weighted=True), entropy=0.1,
            correction=Correction(mask_level="geometric", mask_below=0.9, mask_above=1.3, max_shift=0.05),
        ),
        grpo_with_everything,
    ),
    (DrGRPO(max_tokens=5), dr_grpo),
    (RLOO(kl=0.2, divergence=Divergence("k1", "reward")), rloo_with_kl_in_the_reward),
    (DAPO(overlong=Overlong(max_tokens=4, buffer=2)), dapo),
    (GSPO(clip_low=0.1, clip_high=0.15), gspo),
    (CISPO(clip_low=0.2, clip_high=0.2), cispo),
    (ReinforcePP(kl=0.2), reinforce_pp),
    (ReinforcePP(baseline=True, kl=0.3, divergence=Divergence("k2")), reinforce_pp_baseline),
    (GRPO(turn_gamma=0.7), grpo_by_turn),
    (GSPO(clip_low=0.1, clip_high=0.15, turn_gamma=0.7), gspo_token_by_turn),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "formula"), CASES, ids=[formula.__name__ for _, formula in CASES])
def test_losses_and_gradients_are_those_of_the_formula(batch, algorithm, formula):
    entropy = torch.where(batch.mask, 0.5 + batch.values.square(), 0.0)
    inputs = [batch.values.clone().requires_grad_(), entropy.clone().requires_grad_()]
    annotated = replace(batch, advantages=algorithm.advantages(batch))
    counts = {"tokens": batch.num_scored, "rows": batch.num_rows, "constant": 1}
    terms = algorithm.loss(Outputs(*inputs), annotated)
    found = {name: term.sum / counts[term.denominator] for name, term in terms.items()}

    expected_inputs = [value.detach().clone().requires_grad_() for value in inputs]
    rows = rows_of(batch, *expected_inputs)
    expected = formula(rows)

    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert float(value.detach()) == pytest.approx(float(expected[name].detach()), rel=1e-11, abs=1e-12)
    gradients = torch.autograd.grad(sum(found.values()), inputs, allow_unused=True)
    wanted = torch.autograd.grad(sum(expected.values()), expected_inputs, allow_unused=True)
    for gradient, other in zip(gradients, wanted, strict=True):
        assert (gradient is None) == (other is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-13)


def test_the_batch_reaches_every_branch(batch):
    """Ratios leave the clipping range on both sides, and corrections reach their cap."""
    rho = (batch.values - batch.anchor_logprobs).exp()[batch.mask]
    between = (batch.anchor_logprobs - batch.sampler_logprobs).exp()[batch.mask]
    assert bool((rho > 1.28).any())
    assert bool((rho < 0.8).any())
    assert bool(((rho > 0.8) & (rho < 1.2)).any())
    assert bool((between > 2.0).any())
