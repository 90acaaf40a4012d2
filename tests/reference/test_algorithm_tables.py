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

Standardised in its group, a reward is A = (2, −1, −1)/√2 in group 0 and (1, 0, −1)·√(3/2) in group 1.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.cispo import CISPO
from posttrain.algorithms.credit import Overlong
from posttrain.algorithms.dapo import DAPO
from posttrain.algorithms.dr_grpo import DrGRPO
from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.gspo import GSPO
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.reinforce_pp import ReinforcePP
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


def test_dapo(table):
    """Σ c · min(ρA, clip(ρ) A) over tokens, not rows:

    row 0: (1.28 + 1/2) · 2/√2;   row 1: 0.8 · −1/√2;   row 2: 3/2 · −1/√2
    row 3: √(3/2);   row 4: 0;   row 5: 0.8 · −√(3/2)
    """
    root = math.sqrt(2)
    expected = -(1.78 * root - 2.3 / root + 0.2 * math.sqrt(1.5)) / 8
    assert losses(DAPO(correction_cap=1.5), table) == pytest.approx({"policy": expected}, abs=1e-6)


def test_dapo_with_overlong_shaping(table):
    """max_tokens = 2, buffer = 1: rows of two tokens lose 1.

    Group 0 then earned 0, 0, 0: no advantage. Group 1 earned 4, 1, 0: mean 5/3, variance 26/9, so
    A = (7, −2, −5)/√26. Rows: 7;  −2 − 2;  0.8 · −5, which add up to −1 (over √26).
    """
    shaped = DAPO(correction_cap=1.5, overlong=Overlong(max_tokens=2, buffer=1))
    assert losses(shaped, table) == pytest.approx({"policy": 1 / math.sqrt(26) / 8}, abs=1e-6)
    assert shaped.advantages(table)[:3].tolist() == [[0.0] * 3] * 3


def test_gspo(table):
    """s = √(3/2), 1/2, 1, 1, 1, 1/2; geometric means of c = √(1/2), 1, 2 → 3/2, 1, 1, 1; clip at 0.8, 1.2:

    row 0: √(1/2) · 1.2 · 2/√2 = 1.2;   row 1: 0.8 · −1/√2;   row 2: 3/2 · −1/√2
    row 3: √(3/2);   row 4: 0;   row 5: 0.8 · −√(3/2)
    """
    found = losses(GSPO(clip_low=0.2, clip_high=0.2, correction_cap=1.5), table)
    expected = -(1.2 - 2.3 / math.sqrt(2) + 0.2 * math.sqrt(1.5)) / 6
    assert found == pytest.approx({"policy": expected}, abs=1e-6)


def test_cispo(table):
    """c · min(ρ, 1.25) · A · log π over tokens, where log(1/4) = 2 log(1/2):

        row 0: (1.25 log(3/4) + 1/2 log(1/4)) · 2/√2;   row 1: 1/2 · −1/√2 log(1/4)
        row 2: 3/2 · −1/√2 log(1/2);   row 3: √(3/2) log(1/2);   row 5: 1/2 · −√(3/2) log(1/4)

    Rows 3 and 5 cancel.
    """
    half, root = math.log(1 / 2), math.sqrt(2)
    expected = -((1.25 * math.log(3 / 4) + half) * root - 2.5 / root * half) / 8
    found = losses(CISPO(clip_high=0.25, correction_cap=1.5), table)
    assert found == pytest.approx({"policy": expected}, abs=1e-6)


def test_reinforce_pp(table):
    """Tokens earn 1, 1 | 0 | 0 | 4 | 2, 2 | 0: mean 5/4, variance 27/16, so A = (4v − 5)/√27.

        row 0: 3/2 · −1 + 1/2 · −1 (A < 0: ρ = 3/2 is not cut);   row 1: 0.8 · −5;   row 2: 3/2 · −5
        row 3: 11;   row 4: 3 + 3;   row 5: 0.8 · −5

    which add up to −1/2 (over √27).
    """
    found = losses(ReinforcePP(correction_cap=1.5), table)
    assert found == pytest.approx({"policy": 0.5 / math.sqrt(27) / 8}, abs=1e-6)


def test_reinforce_pp_with_a_baseline(table):
    """Tokens earn 2/3, 2/3 | −1/3 | −1/3 | 2 | 0, 0 | −2: mean 1/12, variance 163/144: A = (12v − 1)/√163.

        row 0: 1.2 · 7 + 1/2 · 7;   row 1: 0.8 · −5;   row 2: 3/2 · −5;   row 3: 23
        row 4: −1 − 1;   row 5: 0.8 · −25

    which add up to 1.4 (over √163).
    """
    found = losses(ReinforcePP(baseline=True, correction_cap=1.5), table)
    assert found == pytest.approx({"policy": -1.4 / math.sqrt(163) / 8}, abs=1e-6)


@pytest.fixture
def far_from_reference(table) -> Batch:
    """The reference gives half the anchor's probability to both tokens of row 0 and to row 5."""
    halved = [[1 / 4, 1 / 8], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1], [1 / 2, 1 / 4], [1 / 4, 1]]
    return replace(table, reference_logprobs=logs(halved))


def test_reinforce_pp_with_the_kl_in_each_tokens_reward(far_from_reference):
    """kl · log(anchor/ref) = 1 at those three tokens: returns to go of 1 − 2, 1 − 1 in row 0, −1 in row 5.

    Tokens: −1, 0 | 0 | 0 | 4 | 2, 2 | −1: mean 3/4, variance 43/16, so A = (4v − 3)/√43.
    """
    algorithm = ReinforcePP(kl=1 / math.log(2))
    assert algorithm.needs == {"reference", "anchor"}
    found = algorithm.advantages(far_from_reference) * math.sqrt(43)
    expected = [[0, -7, -3], [0, -3, 0], [0, -3, 0], [0, 13, 0], [0, 5, 5], [0, -7, 0]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))


def test_kl_in_the_reward_of_algorithms_that_compare_rows(far_from_reference):
    """Rewards are 1 − 2, 0, 0 and 4, 2, 0 − 1: means −1/3 and 5/3."""
    algorithm = DrGRPO(kl=1 / math.log(2), divergence=Divergence("k1", "reward"))
    found = algorithm.advantages(far_from_reference)[:, 1] * 3
    torch.testing.assert_close(found, torch.tensor([-2.0, 1.0, 1.0, 7.0, 1.0, -8.0]))
    assert algorithm.loss(Outputs(logs(CURRENT)), far_from_reference).keys() == {"policy"}


def test_sft(table):
    """−log(3/4 · 1/4 · 1/4 · 1/2 · 1/2 · 1/2 · 1/4 · 1/4) over 8 tokens: the product is 3/2^13."""
    expected = -math.log(3 / 2**13) / 8
    assert losses(SFT(), table) == pytest.approx({"policy": expected}, abs=1e-6)
