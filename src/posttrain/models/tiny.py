"""A Llama-type model of 0.4 M parameters with a byte tokenizer, made on the spot for tests.

It knows nothing, but it starts as a trained model would in the two ways that matter to learning by
trial: it mostly writes plain characters, and it ends its turns.
"""

from __future__ import annotations

import string
from functools import partial
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from posttrain.models.folder import publish, quiet

VERSION = 1
CONTEXT = 2048
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_LIKELY = string.ascii_lowercase + string.digits + "Ġ"  # Ġ is how byte-level tokenizers write a space


def fetch(cache: Path, seed: int = 0) -> Path:
    """Return the model's folder in `cache`, made there if it is missing."""
    return publish(cache / f"tiny-{VERSION}-{seed}", partial(make, seed=seed))


def make(folder: Path, seed: int = 0) -> Path:
    """Write the model and its tokenizer into `folder` as transformers would save them; return `folder`."""
    tokenizer = _tokenizer()
    with quiet():
        _model(tokenizer, seed).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer of one token for each byte, and three special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={char: place for place, char in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (START, END, PAD)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, pad_token=PAD, chat_template=TEMPLATE, model_max_length=CONTEXT
    )


def _model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
        tie_word_embeddings=False, bos_token_id=None, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id, dtype=torch.float32,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):  # building draws from the global generator; all is overwritten
        model = LlamaForCausalLM(config)
    _initialise(model, tokenizer, torch.Generator().manual_seed(seed))
    return model


@torch.no_grad()
def _initialise(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, generator: torch.Generator
) -> None:
    """Draw the weights; dimension 0 of the residual stream carries a constant that the head reads as a bias.

    Untied and this wide, the head lets a few layers' adapters raise any token to probability 1, which
    small tied embeddings under a normalised hidden state do not.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.normal_(0.0, layer.in_features**-0.5, generator=generator)
    embeddings, head = model.get_input_embeddings().weight, model.lm_head.weight
    assert isinstance(embeddings, torch.Tensor)
    embeddings.normal_(0.0, 1.0, generator=generator)
    embeddings[:, 0] = 6.0
    head.normal_(0.0, 0.08, generator=generator)
    head[:, 0] = -1.0
    head[tokenizer.convert_tokens_to_ids(list(_LIKELY)), 0] = 1.0
    head[tokenizer.convert_tokens_to_ids(END), 0] = 1.5
