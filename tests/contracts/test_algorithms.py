"""Every algorithm of ours, and each of its settings, passes the suite that users run on their own."""

from __future__ import annotations

import pytest

from posttrain import config as toml
from posttrain.algorithms import ALGORITHMS
from posttrain.contracts.algorithm import check
from posttrain.protocols import Algorithm

COMPARING = sorted(ALGORITHMS.keys() - {"sft"})

SHARED = [
    {"kl": 0.1},
    {"kl": 0.1, "divergence": {"estimate": "k1", "weighted": True}},
    {"kl": 0.1, "divergence": {"estimate": "k2"}},
    {"kl": 0.1, "divergence": {"estimate": "k3", "weighted": True}},
    {"kl": 0.1, "divergence": {"estimate": "k1", "place": "reward"}},
    {"kl": 0.1, "divergence": {"estimate": "k3", "place": "reward"}, "turn_gamma": 0.9},
    {"entropy": 0.01},
    {"correction_cap": 0.0},
    {"correction": {"level": "token", "mask_level": "geometric", "mask_above": 5.0}},
    {"correction": {"level": "sequence", "mask_below": 1e-9, "mask_above": 5.0}},
    {"correction": {"level": "geometric", "max_shift": 0.2}},
    {"turn_gamma": 1.0},
]
OWN = [
    {"use": "grpo", "normalise": False},
    {"use": "dr_grpo", "max_tokens": 8},
    {"use": "rloo", "denominator": "rows"},
    {"use": "dapo", "overlong": {"max_tokens": 8, "buffer": 2}},
    {"use": "reinforce_pp", "baseline": True, "kl": 0.1},
    {"use": "gspo", "clip_low": 0.2, "clip_high": 0.2},
    {"use": "cispo", "clip_low": 0.2, "clip_high": 0.2},
]


def made(spec) -> Algorithm:
    return toml.construct(spec, ALGORITHMS, source="test", key="algorithm", expected=Algorithm)


@pytest.mark.parametrize("name", COMPARING)
def test_algorithms_that_compare_rows_pass_the_contract(name):
    check(made(name))


@pytest.mark.parametrize("settings", SHARED, ids=str)
@pytest.mark.parametrize("name", COMPARING)
def test_each_shared_setting_passes_the_contract(name, settings):
    check(made({"use": name, **settings}))


@pytest.mark.parametrize("spec", OWN, ids=str)
def test_settings_of_one_algorithm_pass_the_contract(spec):
    check(made(spec))


def test_sft_passes_the_contract():
    check(made("sft"), compares=False)
