import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.bench.engine import PEER, Workload, _Generate, run, token_flops
from posttrain.models.forward import ATTENTION, OneSequence, head_weight, hidden_states
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora

WORKLOAD = Workload(prompts=3, attempts=2, prompt_tokens=8, tokens=4, repetitions=1)


@pytest.fixture
def model():
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attn_implementation=ATTENTION,
        initializer_range=0.2, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LlamaForCausalLM(config)
    tokenizer = PreTrainedTokenizerBase()
    return LanguageModel(module, tokenizer, torch.device("cpu"), torch.float32, 64, frozenset({2}), "tiny")


def test_a_tokens_operations_are_the_hand_worked_ones(model):
    layer = 32 * 32 * 2 + 32 * 16 * 2 + 3 * 32 * 64
    assert token_flops(model.module) == 2 * (2 * layer + 32 * 64)
    add_lora(model.module, Lora(rank=2, targets=("down_proj",)), seed=0)
    assert token_flops(model.module) == 2 * (2 * layer + 32 * 64 + 2 * 2 * (64 + 32))


def test_the_measurement_names_peers_and_keeps_the_module_as_it_was(model, monkeypatch):
    monkeypatch.setattr("posttrain.bench.engine.SQUARE", 64)
    result = run(model, WORKLOAD)
    assert result.peer == result.peers[PEER] > 0
    assert result.ratio == pytest.approx(result.ours / result.peer)
    assert str(result.peers["vllm"]).startswith("absent")
    assert result.settings["tokens"] == 4
    assert model.module.config._attn_implementation == ATTENTION


def test_the_peer_reports_true_logprobs_of_as_many_tokens(model):
    peer = _Generate(model, WORKLOAD.texts(64), WORKLOAD)
    seen = {}
    generate = peer._module.generate

    def keep(*args, **kwargs):
        seen["tokens"] = generate(*args, **kwargs)
        return seen["tokens"]

    peer._module.generate = keep
    logprobs = peer()
    assert logprobs.shape == (6, 4)
    last = seen["tokens"][-1]
    tokens = last[last.shape[0] - 4 - 9 :]  # the last prompt has 9 tokens
    hidden = hidden_states(model.module, tokens, torch.arange(13), OneSequence())
    logits = head_weight(model.module)(hidden).detach()
    logits[:, 2] = -torch.inf  # generate forbids the stop token
    expected = torch.log_softmax(logits, -1)[8:12].gather(1, tokens[9:, None])[:, 0]
    assert torch.allclose(logprobs[-1], expected, atol=1e-4)
