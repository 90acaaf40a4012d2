import pytest
import torch

from posttrain.engines.cache import Cache, Layout, Prefill, rounded
from posttrain.errors import CapacityError
from posttrain.models.forward import causal_self_attention

LAYOUT = Layout(layers=2, kv_heads=2, head_width=8, dtype=torch.float32, device=torch.device("cpu"))


def tensors(tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(heads, tokens, 8, generator=generator) for heads in (6, 2, 2)]


def test_a_tokens_bytes_are_the_hand_worked_ones():
    assert LAYOUT.token_bytes == 2 * 2 * 2 * 8 * 4


def test_widths_go_up_in_steps_of_64():
    assert [rounded(n) for n in (1, 64, 65, 128)] == [64, 64, 128, 128]


def test_fewer_rows_are_used_where_the_budget_asks_for_it():
    budget = LAYOUT.token_bytes * (100 + 5 * 64)
    assert LAYOUT.rows(64, 100, most=8, budget=budget) == 5
    assert LAYOUT.rows(64, 100, most=3, budget=budget) == 3


def test_a_budget_below_one_row_is_an_error_that_says_what_to_change():
    with pytest.raises(CapacityError, match=r"needs 41,984 bytes.*allows 41,983.*Raise engine.cache_bytes"):
        LAYOUT.rows(64, 100, most=8, budget=LAYOUT.token_bytes * 164 - 1)


def test_decoding_row_by_row_equals_causal_attention_over_whole_sequences():
    lengths, decoded = [5, 70, 63], 4
    sequences = [tensors(n + decoded, seed) for seed, n in enumerate(lengths)]
    cache = Cache(LAYOUT, rows=3)
    starts = [0, 5, 75]
    prefill = Prefill([(s, s + n) for s, n in zip(starts, lengths, strict=True)])
    flat = [torch.cat([s[p][:, :n] for s, n in zip(sequences, lengths, strict=True)], 1) for p in range(3)]
    prompt_out, _ = [prefill(layer, *flat, 0.3) for layer in range(2)]
    cache.grow(70)
    for row, place in ((2, 0), (0, 1), (1, 2)):
        cache.fill([row], prefill, place)
    order = [1, 2, 0]  # row → sequence
    rows_out = []
    for t in range(decoded):
        step = cache.step([lengths[i] + t for i in order])
        new = [torch.stack([sequences[i][p][:, lengths[i] + t] for i in order], 1) for p in range(3)]
        rows_out.append([step(layer, *new, 0.3) for layer in range(2)])
    for i, (n, start) in enumerate(zip(lengths, starts, strict=True)):
        whole = causal_self_attention(*sequences[i], 0.3)
        assert torch.allclose(prompt_out[start : start + n], whole[:n], atol=1e-5)
        for t in range(decoded):
            for layer in range(2):
                assert torch.allclose(rows_out[t][layer][order.index(i)], whole[n + t], atol=1e-5)


def test_growing_and_keeping_rows_preserve_what_is_held():
    cache = Cache(LAYOUT, rows=3)
    new = tensors(3, 0)
    for layer in range(2):
        cache.step([0, 0, 0])(layer, *new, 1.0)
    cache.grow(65)
    assert cache.width == 128
    cache.keep([2, 0])
    again = [part[:, [2, 0]] for part in tensors(3, 1)]
    out = cache.step([1, 1])(0, *again, 1.0)
    for row, old in enumerate((2, 0)):
        query = again[0][:, row : row + 1]
        keys = torch.stack([new[1][:, old], again[1][:, row]], 1)
        values = torch.stack([new[2][:, old], again[2][:, row]], 1)
        scores = torch.einsum("hqd,hkd->hqk", query, keys.repeat_interleave(3, 0))
        expected = torch.softmax(scores, -1) @ values.repeat_interleave(3, 0)
        assert torch.allclose(out[row], expected[:, 0], atol=1e-5)
