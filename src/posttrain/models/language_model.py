"""A loaded model: its module, tokenizer, device and dtype, ready for sampler and trainer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """What `models.load.load` gives: `context` counts tokens, `stop_tokens` end a turn."""

    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    dtype: torch.dtype
    context: int
    stop_tokens: frozenset[int]
    source: str
