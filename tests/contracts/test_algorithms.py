"""Every algorithm of ours passes the suite that users run on their own."""

from __future__ import annotations

import pytest

from posttrain.algorithms.dr_grpo import DrGRPO
from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.rloo import RLOO
from posttrain.algorithms.sft import SFT
from posttrain.contracts.algorithm import check


@pytest.mark.parametrize(
    "algorithm",
    [
        GRPO(), GRPO(kl=0.1, correction_cap=0.0, normalise=False), DrGRPO(), DrGRPO(kl=0.1, max_tokens=8),
        RLOO(), RLOO(kl=0.1, denominator="rows", correction_cap=0.0),
    ],
    ids=str,
)  # fmt: skip
def test_algorithms_that_compare_rows_pass_the_contract(algorithm):
    check(algorithm)


def test_sft_passes_the_contract():
    check(SFT(), compares=False)
