"""From `[model]` settings to a model that sampler and trainer can use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import torch
from jinja2 import TemplateError
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from posttrain.errors import ConfigError
from posttrain.models import dtype as dtypes
from posttrain.models.adapter import load_adapter
from posttrain.models.forward import OneSequence, hidden_states
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora
from posttrain.models.pretrained import read
from posttrain.models.source import resolve


@dataclass(frozen=True, slots=True)
class Model:
    """Settings of the model; `lora` None trains all weights, `adapter` is a PEFT folder to start from.

    source: `smollm2-135m`, `tiny`, a folder that transformers loads, or a hub id
    dtype: number format of the base; `auto` is bfloat16 where faster, and float32 without LoRA, since
        small updates are lost in bfloat16 weights
    """

    source: str = "smollm2-135m"
    dtype: dtypes.DtypeName = "auto"
    device: dtypes.DeviceName = "auto"
    lora: Lora | None = field(default_factory=Lora)
    adapter: str = ""


def load(settings: Model, seed: int) -> LanguageModel:
    """Return the model in evaluation mode, its adapter initialised from `seed` or read from a folder.

    Raises ConfigError where the source is missing, incomplete or of an unsupported kind.
    """
    where = resolve(settings.source)
    device = dtypes.choose_device(settings.device)
    wanted = "float32" if settings.dtype == "auto" and settings.lora is None else settings.dtype
    dtype = dtypes.choose(wanted, device)
    module, tokenizer = read(where, dtype)
    module = cast(PreTrainedModel, module.to(device)).eval()
    _check_forward(module)
    _adapt(module, settings, seed)
    return LanguageModel(
        module=module,
        tokenizer=tokenizer,
        device=device,
        dtype=dtype,
        context=_context(module, settings.source),
        stop_tokens=stop_tokens(tokenizer, module.generation_config),
        source=settings.source,
    )


def stop_tokens(
    tokenizer: PreTrainedTokenizerBase, generation_config: GenerationConfig | None
) -> frozenset[int]:
    """Return the tokens that end a turn: the end tokens, and the one the chat template ends answers with."""
    configured = generation_config.eos_token_id if generation_config else None
    found = [*(configured if isinstance(configured, list) else [configured])]
    found += [tokenizer.eos_token_id, _turn_end(tokenizer)]
    ends = {token for token in found if isinstance(token, int)}
    if not ends:
        raise ConfigError(
            "the tokenizer has no end token, so no turn could end",
            key="model.source",
            hint="Set eos_token in its tokenizer_config.json.",
        )
    return frozenset(ends)


def _turn_end(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the special token that follows an answer in the chat template, if any does."""
    if not tokenizer.chat_template:
        return None
    answer = "sentinel-of-an-answer"
    messages = [{"role": "user", "content": "question"}, {"role": "assistant", "content": answer}]
    try:
        text = cast(str, tokenizer.apply_chat_template(messages, tokenize=False))
    except TemplateError:
        return None
    tokens = tokenizer.encode(text.partition(answer)[2].lstrip(), add_special_tokens=False)
    special = {place for place, token in tokenizer.added_tokens_decoder.items() if token.special}
    return tokens[0] if tokens and tokens[0] in special else None


def _adapt(module: PreTrainedModel, settings: Model, seed: int) -> None:
    if settings.lora is not None:
        add_lora(module, settings.lora, seed)
    elif settings.adapter:
        raise ConfigError(
            "an adapter is given, but lora is off",
            key="model.adapter",
            hint="Remove one of the two settings.",
        )
    else:
        module.requires_grad_(True)
    if settings.adapter:
        load_adapter(module, Path(settings.adapter).expanduser())


def _check_forward(module: PreTrainedModel) -> None:
    """Run one token through the shared forward pass, which refuses unsupported kinds of attention."""
    zero = torch.zeros(1, dtype=torch.int64, device=module.device)
    with torch.no_grad():
        hidden_states(module, zero, zero, OneSequence())


def _context(module: PreTrainedModel, source: str) -> int:
    context = getattr(module.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(context, int):
        raise ConfigError(
            f"{source!r} does not say how long its context is",
            key="model.source",
            hint="Set max_position_embeddings in its config.json.",
        )
    return context
