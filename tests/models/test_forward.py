import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from posttrain.errors import ConfigError
from posttrain.models.forward import (
    ATTENTION,
    OneSequence,
    causal_self_attention,
    grouped,
    head_weight,
    hidden_states,
    ungrouped,
)


def small_llama(kv_heads: int = 2, tied: bool = False) -> LlamaForCausalLM:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=kv_heads,
            tie_word_embeddings=tied,
        )
        return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("tied", [False, True])
def test_flat_logits_equal_those_of_transformers(kv_heads: int, tied: bool) -> None:
    model = small_llama(kv_heads, tied)
    tokens = torch.arange(12) * 7 % 50
    with torch.no_grad():
        expected = model(tokens[None]).logits[0]
        model.set_attn_implementation(ATTENTION)
        hidden = hidden_states(model, tokens, torch.arange(12), OneSequence())
        torch.testing.assert_close(head_weight(model)(hidden), expected, atol=1e-5, rtol=1e-5)


def test_gradients_of_the_flat_pass_equal_those_of_transformers() -> None:
    model, tokens = small_llama(), torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])
    model(tokens[None]).logits.square().mean().backward()
    expected = model.model.layers[0].self_attn.k_proj.weight.grad.clone()
    model.zero_grad()
    model.set_attn_implementation(ATTENTION)
    hidden = hidden_states(model, tokens, torch.arange(8), OneSequence())
    head_weight(model)(hidden).square().mean().backward()
    torch.testing.assert_close(
        model.model.layers[0].self_attn.k_proj.weight.grad, expected, atol=1e-6, rtol=1e-4
    )


def test_every_layer_asks_attend_with_its_own_index_and_heads() -> None:
    model = small_llama(kv_heads=2)
    model.set_attn_implementation(ATTENTION)
    seen = []

    def attend(layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float):
        seen.append((layer, tuple(query.shape), tuple(key.shape), tuple(value.shape), scale))
        return causal_self_attention(query, key, value, scale)

    with torch.no_grad():
        hidden_states(model, torch.arange(5), torch.arange(5), attend)
    assert seen == [(layer, (4, 5, 8), (2, 5, 8), (2, 5, 8), 8**-0.5) for layer in (0, 1)]


def test_attention_averages_the_values_so_far_when_all_keys_are_equal() -> None:
    query, key = torch.ones(2, 3, 4), torch.ones(1, 3, 4)
    value = torch.tensor([[3.0], [5.0], [10.0]]).expand(3, 4)[None]
    out = causal_self_attention(query, key, value, 0.5)
    assert out.shape == (3, 2, 4)
    torch.testing.assert_close(out[:, 0, 0], torch.tensor([3.0, 4.0, 6.0]))


def test_folding_query_heads_gives_the_attention_of_repeated_keys() -> None:
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(3, 6, 2, 4, generator=generator)
    key, value = (torch.randn(3, 2, 5, 4, generator=generator) for _ in range(2))
    attention = nn.functional.scaled_dot_product_attention
    expected = attention(query, key.repeat_interleave(3, 1), value.repeat_interleave(3, 1))
    torch.testing.assert_close(ungrouped(attention(grouped(query, 2), key, value), 6), expected)


def test_a_model_with_learned_positions_and_plain_heads_works_too() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = GPT2Config(
            vocab_size=20, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
        )
        model = GPT2LMHeadModel(config).eval()
    tokens = torch.tensor([3, 1, 4, 1, 5])
    with torch.no_grad():
        expected = model(tokens[None]).logits[0]
        model.set_attn_implementation(ATTENTION)
        hidden = hidden_states(model, tokens, torch.arange(5), OneSequence())
        torch.testing.assert_close(head_weight(model)(hidden), expected, atol=1e-5, rtol=1e-5)


def test_a_model_without_attend_is_refused_with_what_to_choose() -> None:
    model = small_llama()
    model.set_attn_implementation(ATTENTION)
    with pytest.raises(ConfigError, match=r"Choose a decoder with full attention"):
        model(torch.arange(4)[None])
