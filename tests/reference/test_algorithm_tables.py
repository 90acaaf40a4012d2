"""Hand-worked tables: two groups of three rows, every number of each algorithm's loss.

Rows have these scored tokens and rewards:

    group 0: lengths 2, 1, 1; rewards 1, 0, 0        group 1: lengths 1, 2, 1; rewards 4, 2, 0

All log-probabilities are logs of these token probabilities (a · b: two tokens):

    row      0            1      2      3      4            5
    sampler  1/2 · 1/2    1/2    1/4    1/2    1/2 · 1/4    1/2
    anchor   1/2 · 1/4    1/2    1/2    1/2    1/2 · 1/4    1/2
    current  3/4 · 1/4    1/4    1/2    1/2    1/2 · 1/4    1/4
    ref      1/2 · 1/4    1/2    1/2    1/2    1/2 · 1/4    1/4

so current/anchor (ρ) and anchor/sampler (c, cut at 3/2) are

    ρ        3/2 · 1      1/2    1      1      1 · 1        1/2
    c        1 · 1/2      1      3/2    1      1 · 1        1
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.dr_grpo import DrGRPO
from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.rloo import RLOO
from posttrain.algorithms.sft import SFT
from posttrain.batch import Batch
from posttrain.protocols import Outputs

LENGTHS = torch.tensor([2, 1, 1, 1, 2, 1])
SAMPLER = [[1 / 2, 1 / 2], [1 / 2, 1], [1 / 4, 1], [1 / 2, 1], [1 / 2, 1 / 4], [1 / 2, 1]]
ANCHOR = [[1 / 2, 1 / 4], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1 / 4], [1 / 2, 1]]
CURRENT = [[3 / 4, 1 / 4], [1 / 4, 1], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1 / 4], [1 / 4, 1]]
REFERENCE = [[1 / 2, 1 / 4], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1 / 4], [1 / 4, 1]]


def logs(table):
    """Return [row, time] with the one prompt token in front."""
    return torch.cat([torch.zeros(6, 1), torch.tensor(table).log()], 1)


@pytest.fixture
def table() -> Batch:
    mask = (torch.arange(3) >= 1) & (torch.arange(3) < 1 + LENGTHS[:, None])
    return Batch(
        tokens=torch.ones(6, 3, dtype=torch.int64),
        mask=mask,
        turn=torch.where(mask, 0, -1),
        sampler_logprobs=logs(SAMPLER),
        rewards=torch.tensor([1.0, 0.0, 0.0, 4.0, 2.0, 0.0]),
        turn_rewards=torch.zeros(6, 3),
        advantages=torch.zeros(6, 3),
        lengths=LENGTHS + 1,
        prompt_lengths=torch.ones(6, dtype=torch.int64),
        group=torch.tensor([0, 0, 0, 1, 1, 1]),
        domain=torch.zeros(6, dtype=torch.int64),
        temperature=torch.ones(6),
        row_weight=torch.ones(6),
        anchor_logprobs=logs(ANCHOR),
        reference_logprobs=logs(REFERENCE),
    )


def losses(algorithm, batch):
    batch = replace(batch, advantages=algorithm.advantages(batch))
    counts = {"tokens": 8, "rows": 6, "constant": 1}
    terms = algorithm.loss(Outputs(logs(CURRENT)), batch)
    return {name: float(term.sum) / counts[term.denominator] for name, term in terms.items()}


def test_grpo(table):
    """A = (2, −1, −1)/√2 and (1, 0, −1)·√(3/2); a row's mean of c · min(ρA, clip(ρ) A):

        row 0: (1 · 1.28 + 1/2 · 1)/2 · 2/√2 = 0.89 · √2        (ρ = 3/2 is cut to 1.28)
        row 1: 1 · 0.8 · −1/√2                                  (ρ = 1/2, A < 0: cut to 0.8)
        row 2: 3/2 · −1/√2
        row 3: √(3/2);   row 4: 0;   row 5: 0.8 · −√(3/2)

    sum = 0.89·√2 − 2.3/√2 + 0.2·√(3/2). k3 with ref/current 2/3, 2, 1: row 0 (2/3 − log(2/3) − 1)/2,
    row 1 2 − log 2 − 1, others 0.
    """
    found = losses(GRPO(kl=0.5, correction_cap=1.5), table)
    root = math.sqrt(2)
    expected = -(0.89 * root - 2.3 / root + 0.2 * math.sqrt(1.5)) / 6
    assert found["policy"] == pytest.approx(expected, abs=1e-6)
    divergence = (2 / 3 - math.log(2 / 3) - 1) / 2 + 1 - math.log(2)
    assert found["kl"] == pytest.approx(0.5 * divergence / 6, abs=1e-6)


def test_grpo_with_row_weights(table):
    """Weights 2 for group 0 and 0 for group 1 leave twice the first group's sum."""
    weighted = replace(table, row_weight=torch.tensor([2.0, 2.0, 2.0, 0.0, 0.0, 0.0]))
    expected = -2 * (0.89 * math.sqrt(2) - 2.3 / math.sqrt(2)) / 6
    assert losses(GRPO(correction_cap=1.5), weighted)["policy"] == pytest.approx(expected, abs=1e-6)


def test_grpo_without_an_anchor_has_ratios_of_1(table):
    """ρ = 1 and c off: row means are A itself, which sums to 0 in each group."""
    plain = replace(table, anchor_logprobs=None)
    assert losses(GRPO(correction_cap=0.0), plain)["policy"] == pytest.approx(0.0, abs=1e-6)


def test_dr_grpo(table):
    """A = (2, −1, −1)/3 and (2, 0, −2); a row's sum of c · min(ρA, clip(ρ) A):

        row 0: (1 · 1.28 + 1/2) · 2/3;   row 1: 0.8 · −1/3;   row 2: 3/2 · −1/3
        row 3: 2;   row 4: 0;   row 5: 0.8 · −2

    sum = (3.56 − 0.8 − 1.5)/3 + 0.4 = 0.82, over max_tokens = 4 and 6 rows.
    """
    found = losses(DrGRPO(max_tokens=4, correction_cap=1.5), table)
    assert found == pytest.approx({"policy": -0.82 / 4 / 6}, abs=1e-6)


def test_rloo(table):
    """A = (1, −1/2, −1/2) and (3, 0, −3); current/sampler of whole answers, cut at 3/2:

        (3/4 · 1/4)/(1/4) = 3/4;   1/2;   2 → 3/2;   1;   1;   1/2

    sum of c · A · log π(y) = 3/4 log(3/16) − 1/4 log(1/4) − 3/4 log(1/2) + 3 log(1/2) − 3/2 log(1/4)
    """
    total = (
        0.75 * math.log(3 / 16)
        - 0.25 * math.log(1 / 4)
        - 0.75 * math.log(1 / 2)
        + 3 * math.log(1 / 2)
        - 1.5 * math.log(1 / 4)
    )
    assert losses(RLOO(correction_cap=1.5), table) == pytest.approx({"policy": -total / 8}, abs=1e-6)
    rows = losses(RLOO(correction_cap=1.5, denominator="rows"), table)
    assert rows == pytest.approx({"policy": -total / 6}, abs=1e-6)


def test_sft(table):
    """−log(3/4 · 1/4 · 1/4 · 1/2 · 1/2 · 1/2 · 1/4 · 1/4) over 8 tokens: the product is 3/2^13."""
    expected = -math.log(3 / 2**13) / 8
    assert losses(SFT(), table) == pytest.approx({"policy": expected}, abs=1e-6)
