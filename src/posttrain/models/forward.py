"""The forward pass that sampler and trainer share: flat tokens through any decoder of transformers.

Every linear layer sees one flat row of real tokens, so padding costs nothing there; who may attend
to whom is decided by an `Attend` object, handed down to each layer through transformers' attention
interface. The engine's is its cache, the learner's is the layout of a micro-batch.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from posttrain.errors import ConfigError

ATTENTION = "posttrain"


class Attend(Protocol):
    """Mix values over the tokens that each token may see, in one layer."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return [tokens, heads, width].

        `query` is [heads, tokens, width], `key` and `value` are [kv_heads, tokens, width].
        """
        ...


def hidden_states(model: PreTrainedModel, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
    """Return the last hidden states [tokens, hidden] of flat `tokens` (int64 [tokens]).

    `positions` (int64 [tokens]) count from 0 within each sequence.
    """
    body = model.base_model
    output = body(
        input_ids=tokens[None],
        position_ids=positions[None],
        use_cache=False,
        attend=attend,
    )
    hidden: Tensor = output.last_hidden_state[0]
    return hidden


def head_weight(model: PreTrainedModel) -> nn.Linear:
    """Return the layer that turns hidden states into logits."""
    head = model.get_output_embeddings()
    assert isinstance(head, nn.Linear)
    return head


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    attend: Attend | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Adapt transformers' attention interface ([1, heads, tokens, width]) to `Attend`."""
    if attend is None or sliding_window is not None or softcap is not None:
        raise ConfigError(
            f"{type(module).__name__} needs an attention that is not supported (sliding window, soft cap, "
            "or a model that does not hand keyword arguments down)",
            key="model.source",
            hint="Choose a decoder with full attention, such as Llama, Qwen2/3 or SmolLM.",
        )
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    return attend(layer, query[0], key[0], value[0], scale)[None], None


AttentionInterface.register(ATTENTION, _attention)


def grouped(query: Tensor, num_kv_heads: int) -> Tensor:
    """Fold query heads that share a key head: [rows, heads, time, width] → [rows, kv, heads/kv·time, width].

    Grouped-query attention then is plain attention with more queries, and keys are never repeated.
    """
    rows, heads, time, width = query.shape
    return query.reshape(rows, num_kv_heads, heads // num_kv_heads * time, width)


def ungrouped(output: Tensor, num_heads: int) -> Tensor:
    """Undo `grouped`: [rows, kv, heads/kv·time, width] → [rows, heads, time, width]."""
    rows, kv, folded, width = output.shape
    return output.reshape(rows, num_heads, kv * folded // num_heads, width)


def causal_self_attention(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Return [tokens, heads, width] of one sequence alone: the simplest way to attend."""
    repeat = query.shape[0] // key.shape[0]
    key, value = key.repeat_interleave(repeat, 0), value.repeat_interleave(repeat, 0)
    out = torch.nn.functional.scaled_dot_product_attention(
        query[None], key[None], value[None], is_causal=True, scale=scale
    )
    return out[0].transpose(0, 1)


class OneSequence:
    """Attend causally within a single sequence."""

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        return causal_self_attention(query, key, value, scale)
