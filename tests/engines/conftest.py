"""A tiny random Llama with grouped heads, and requests for it."""

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.models.forward import ATTENTION
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora, owned
from posttrain.protocols import Request, SampleKey, Sampling

VOCABULARY, CONTEXT = 300, 96


def build(dtype: torch.dtype = torch.float32, lora: bool = True, device: str = "cpu") -> LanguageModel:
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=8, max_position_embeddings=CONTEXT,
        tie_word_embeddings=True, attn_implementation=ATTENTION, initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LlamaForCausalLM(config).to(dtype).eval()
    if lora:
        add_lora(module, Lora(rank=4), seed=1)
        generator = torch.Generator().manual_seed(2)
        for name, parameter in owned(module):
            if name.endswith("lora_B"):
                parameter.data.normal_(std=0.1, generator=generator)
    module.to(device)
    tokenizer = PreTrainedTokenizerBase()
    return LanguageModel(
        module, tokenizer, torch.device(device), dtype, CONTEXT, frozenset({2, 3, 4, 5, 6, 7, 8}), "tiny"
    )


def request_for(
    group: int, attempt: int = 0, *, length: int | None = None, sampling: Sampling = Sampling(max_tokens=12)
) -> Request:
    length = 5 + 3 * group % 11 if length is None else length
    generator = torch.Generator().manual_seed(group)
    prompt = tuple(torch.randint(10, VOCABULARY, (length,), generator=generator).tolist())
    return Request(prompt, SampleKey(1, "train", group, attempt), sampling)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., LanguageModel]:
    """Build a tiny model whose adapters, if any, are far from zero; some tokens are stop tokens."""
    return build


@pytest.fixture(scope="session")
def model() -> LanguageModel:
    return build()


@pytest.fixture(scope="session")
def ask() -> Callable[..., Request]:
    """Make a request whose prompt is a function of `group`."""
    return request_for
