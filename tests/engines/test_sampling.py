import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare, kstest

from posttrain.engines.sampling import CHUNK, invert, sample, support, uniforms
from posttrain.protocols import SampleKey

KEY = SampleKey(3, "train", 5, 7)


def test_uniforms_are_a_function_of_every_field_of_the_key():
    keys = [
        KEY,
        SampleKey(4, "train", 5, 7),
        SampleKey(3, "eval", 5, 7),
        SampleKey(3, "train", 6, 7),
        SampleKey(3, "train", 5, 8),
        SampleKey(3, "train", 5, 7, turn=1),
        SampleKey(3, "train", 57, 0),
    ]
    draws = {tuple(uniforms(key, 4).tolist()) for key in keys}
    assert len(draws) == len(keys)
    assert np.array_equal(uniforms(KEY, 9), uniforms(SampleKey(3, "train", 5, 7), 9))


def test_a_longer_draw_extends_a_shorter_one():
    assert np.array_equal(uniforms(KEY, 100)[:9], uniforms(KEY, 9))


def test_uniforms_are_uniform_and_below_one():
    draws = np.concatenate([uniforms(SampleKey(0, "train", group, 0), 50) for group in range(400)])
    assert draws.dtype == np.float32
    assert draws.min() >= 0
    assert draws.max() < 1
    assert kstest(draws, "uniform").pvalue > 0.001


def test_inversion_returns_the_hand_worked_index():
    weights = torch.tensor([[1.0, 0.0, 3.0, 4.0]]).repeat(6, 1)
    index, total = invert(weights, torch.tensor([0.0, 0.12, 0.125, 0.49, 0.5, 0.999]))
    assert index.tolist() == [0, 0, 2, 2, 3, 3]
    assert total.tolist() == [8.0] * 6


@pytest.mark.parametrize("size", [1, 7, CHUNK, CHUNK + 1, 5 * CHUNK + 3])
def test_inversion_agrees_with_a_cumulative_sum_in_float64(size):
    generator = torch.Generator().manual_seed(size)
    weights = torch.rand(200, size, generator=generator)
    weights *= torch.rand(weights.shape, generator=generator) < 0.3
    weights[:, size // 2] += 0.5
    uniform = torch.rand(200, generator=generator)
    index, total = invert(weights, uniform)
    ends = weights.double().cumsum(-1)
    target = uniform.double() * ends[:, -1]
    chosen = weights.gather(1, index[:, None])[:, 0]
    upper = ends.gather(1, index[:, None])[:, 0]
    assert (chosen > 0).all()
    assert ((upper - chosen - target) < 1e-3).all()
    assert ((target - upper) < 1e-3).all()
    assert torch.allclose(total.double(), ends[:, -1], rtol=1e-5)


def test_an_entry_of_weight_zero_is_never_drawn_even_at_the_edges():
    weights = torch.zeros(3, 2 * CHUNK)
    weights[:, 5], weights[:, 300] = 0.1, 0.3
    index, _ = invert(weights, torch.tensor([0.0, 1.0, 1.0 - 2.0**-24]))
    assert index.tolist() == [5, 300, 300]


def test_frequencies_follow_the_tempered_softmax():
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    count = 20_000
    uniform = (torch.arange(count) + 0.5) / count
    tokens, logprobs = sample(
        logits.repeat(count, 1), uniform[torch.randperm(count)], torch.full((count,), 2.0)
    )
    expected = torch.softmax(logits / 2, -1)
    assert chisquare(torch.bincount(tokens, minlength=4), expected.double().numpy() * count).pvalue > 0.5
    assert torch.allclose(logprobs, expected.log()[tokens], atol=1e-6)


def test_logprobs_match_log_softmax_of_bfloat16_logits_row_by_row():
    logits = (5 * torch.randn(16, 1000)).bfloat16()
    temperature = torch.linspace(0.3, 3, 16)
    before = logits.clone()
    tokens, logprobs = sample(logits, torch.rand(16), temperature)
    expected = torch.log_softmax(logits.double() / temperature[:, None], -1).gather(1, tokens[:, None])[:, 0]
    assert torch.allclose(logprobs.double(), expected, atol=1e-5)
    assert torch.equal(logits, before)


def test_float32_logits_are_not_changed_in_place():
    logits = torch.randn(2, 9)
    before = logits.clone()
    sample(logits, torch.rand(2), torch.ones(2))
    assert torch.equal(logits, before)


def test_top_k_and_nucleus_keep_the_hand_worked_support():
    weights = torch.tensor([[0.1, 0.4, 0.2, 0.3]]).repeat(5, 1)
    top_k = torch.tensor([0, 2, 0, 3, 0])
    top_p = torch.tensor([1.0, 1.0, 0.65, 0.4, 0.01])
    assert support(weights, top_k, top_p).tolist() == [
        [True, True, True, True],
        [False, True, False, True],
        [False, True, False, True],
        [False, True, False, False],
        [False, True, False, False],
    ]


def test_logprobs_are_renormalised_over_the_kept_support():
    logits = torch.tensor([0.1, 0.4, 0.2, 0.3]).log().repeat(100, 1)
    tokens, logprobs = sample(
        logits,
        torch.linspace(0, 0.999, 100),
        torch.ones(100),
        torch.full((100,), 2),
        torch.ones(100),
    )
    assert set(tokens.tolist()) == {1, 3}
    expected = {1: math.log(4 / 7), 3: math.log(3 / 7)}
    assert all(abs(lp - expected[t]) < 1e-6 for t, lp in zip(tokens.tolist(), logprobs.tolist(), strict=True))


def test_sampling_reads_no_global_random_state():
    logits = torch.randn(3, 50)
    draws = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        draws.append(sample(logits, torch.tensor([0.1, 0.5, 0.9]), torch.ones(3))[0].tolist())
    assert draws[0] == draws[1]
