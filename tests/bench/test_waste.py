import pytest
import torch
from transformers import LlamaConfig

from posttrain.bench.waste import Lengths, drawn, measure, scores
from posttrain.policy.layout import MAX_PADDING, Tree

CONFIG = LlamaConfig(
    hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2
)


def test_equal_lengths_waste_nothing():
    waste = measure(CONFIG, Lengths(groups=4, attempts=2, spread=0.0), token_budget=4096)
    assert (waste.linear, waste.slots, waste.scores, waste.work, waste.padded_rows) == (0, 0, 0, 0, 0)


def test_skewed_lengths_pad_attention_and_rows_but_never_linear_layers():
    waste = measure(CONFIG, Lengths(), token_budget=4096)
    assert waste.linear == 0
    assert 0 < waste.work < waste.scores < 1
    assert 0.3 < waste.padded_rows < 0.9


def test_a_tree_s_scores_are_the_hand_worked_ones():
    assert scores(Tree(3, (0, 1), (2, 5))) == 9 + 2 * (3 + 2) + 5 * (3 + 5)
    assert scores(Tree(4, (0,), ())) == 16


def test_sequences_of_one_bucket_waste_what_the_shorter_lack():
    lengths = Lengths(groups=1, attempts=2, prompt=8, completion=8, spread=0.3)
    batch = drawn(lengths)
    prompt = int(batch.prompt_lengths[0])
    first, second = (batch.lengths - prompt).tolist()
    waste = measure(CONFIG, lengths, token_budget=10**6)
    tokens, longest = prompt + first + second, max(prompt, first, second)
    assert max(prompt, first, second) - min(prompt, first, second) <= MAX_PADDING
    assert waste.slots == pytest.approx(1 - tokens / (3 * longest))
    across = (first + second) * prompt
    real, computed = prompt**2 + first**2 + second**2 + across, 3 * longest**2 + across
    assert waste.scores == pytest.approx(1 - real / computed)
    each_token, each_score = 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48), 3 * 2 * 32
    done, needed = each_token * tokens + each_score * computed, each_token * tokens + each_score * real
    assert waste.work == pytest.approx(1 - needed / done)


def test_drawn_lengths_have_the_medians_and_spread_asked_for():
    batch = drawn(Lengths(groups=200, attempts=8, prompt=100, completion=50, spread=0.5))
    completions = (batch.lengths - batch.prompt_lengths).double()
    assert float(completions.median()) == pytest.approx(50, rel=0.1)
    assert float(completions.log().std()) == pytest.approx(0.5, rel=0.1)
    assert torch.equal(drawn(Lengths()).lengths, drawn(Lengths()).lengths)
