"""Attention over trees: a prompt's tokens attend causally, its branches to the prompt and to themselves.

Small problems are matrix products whose prompt keys serve all branches unrepeated; problems whose
scores would not fit the memory go through torch's fused attention, in blocks of queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

MAX_SCORES = 2**23
"""Keep attention probabilities up to this many per layer and bucket (16 MiB in bf16)."""
QUERY_BLOCK = 512
"""Queries of the fused path attend in blocks, so that most of the future is never computed."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Trees padded to one shape: `num_trees` × (`prompt` + `branches` × `suffix`) slots, prompts first.

    hidden_prompt  [num_trees, prompt]; 0 on real prompt tokens, -inf on padding
    past           [time, time] for time = max(prompt, suffix); 0 up to the diagonal, -inf above
    """

    num_trees: int
    prompt: int
    branches: int
    suffix: int
    hidden_prompt: Tensor
    past: Tensor

    @classmethod
    def of(cls, prompts: Tensor, prompt: int, branches: int, suffix: int, dtype: torch.dtype) -> Bucket:
        """Return the bucket of trees with `prompts` real prompt tokens (int64 [num_trees])."""
        hidden = torch.arange(prompt, device=prompts.device) >= prompts[:, None]
        time = max(prompt, suffix)
        future = torch.ones(time, time, dtype=torch.bool, device=prompts.device).triu(1)
        return cls(len(prompts), prompt, branches, suffix, _additive(hidden, dtype), _additive(future, dtype))

    @property
    def num_prompt_slots(self) -> int:
        return self.num_trees * self.prompt

    @property
    def num_slots(self) -> int:
        return self.num_prompt_slots + self.num_trees * self.branches * self.suffix


def _additive(blocked: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(blocked.shape, dtype=dtype, device=blocked.device).masked_fill_(blocked, -torch.inf)


class Pick(torch.autograd.Function):
    """Take rows by index where every row that matters is taken once: the gradient is a pick as well.

    Faster than indexing, whose gradient adds row by row, and deterministic on every device.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, take: Tensor, give: Tensor, unused: Tensor | None) -> Tensor:
        ctx.save_for_backward(give, unused)
        return rows.index_select(0, take)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        give, unused = ctx.saved_tensors
        gradient = gradients[0].index_select(0, give)
        if unused is not None:
            gradient.index_fill_(0, unused, 0.0)
        return gradient, None, None, None


def pick(rows: Tensor, take: Tensor, give: Tensor, unused: Tensor | None = None) -> Tensor:
    """Return rows[take]; `give` is the inverse: where each row went; `unused` rows went nowhere."""
    picked: Tensor = Pick.apply(rows, take, give, unused)  # type: ignore[no-untyped-call]
    return picked


class Heads(NamedTuple):
    """Query [tokens, heads, width], key and value [tokens, kv_heads, width]."""

    query: Tensor
    key: Tensor
    value: Tensor


@dataclass(frozen=True, slots=True)
class TreeAttention:
    """The `Attend` of a layout: `take` [slots] gives each slot's flat token, `give` [flat] its slot.

    `padding` lists the slots without a token of their own; what they hold is never seen.
    """

    buckets: tuple[Bucket, ...]
    take: Tensor
    give: Tensor
    padding: Tensor

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return [tokens, heads, width]; see `models.forward.Attend`."""
        parts = Heads(*(pick(part.transpose(0, 1), self.take, self.give) for part in (query, key, value)))
        mixed, start = [], 0
        for bucket in self.buckets:
            middle, end = start + bucket.num_prompt_slots, start + bucket.num_slots
            prompts = Heads(*(part[start:middle] for part in parts))
            mixed.append(_prompts(bucket, prompts, scale))
            if end > middle:
                mixed.append(_branches(bucket, prompts, Heads(*(part[middle:end] for part in parts)), scale))
            start = end
        return pick(torch.cat(mixed), self.give, self.take, self.padding)


def _prompts(b: Bucket, own: Heads, scale: float) -> Tensor:
    trees, time, (heads, width), kv = b.num_trees, b.prompt, own.query.shape[1:], own.key.shape[1]
    if trees * heads * time * time > MAX_SCORES:
        query, keys, values = (part.view(trees, time, -1, width).transpose(1, 2) for part in own)
        fused = F.scaled_dot_product_attention(
            query, keys, values, is_causal=True, scale=scale, enable_gqa=heads != kv
        )
        return fused.transpose(1, 2).reshape(trees * time, heads, width)
    repeat = heads // kv
    query = own.query.view(trees, time, kv, repeat, width).permute(0, 2, 3, 1, 4)
    query = query.reshape(trees * kv, repeat * time, width)
    keys, values = _by_head(own.key, trees), _by_head(own.value, trees)
    past = b.past[:time, :time].repeat(repeat, 1)
    scores = torch.baddbmm(past, query, keys.transpose(1, 2), alpha=scale)
    out = torch.bmm(scores.softmax(-1), values).view(trees, kv, repeat, time, width)
    return out.permute(0, 3, 1, 2, 4).reshape(trees * time, heads, width)


def _by_head(part: Tensor, rows: int) -> Tensor:
    """Return [rows · kv_heads, time, width] for keys or values [rows · time, kv_heads, width]."""
    kv, width = part.shape[1:]
    return part.view(rows, -1, kv, width).transpose(1, 2).reshape(rows * kv, -1, width)


def _branches(b: Bucket, prompts: Heads, own: Heads, scale: float) -> Tensor:
    num_scores = b.num_trees * b.branches * own.query.shape[1] * b.suffix * (b.prompt + b.suffix)
    mix = _fused_branches if num_scores > MAX_SCORES else _plain_branches
    return mix(b, prompts, own, scale)


def _plain_branches(b: Bucket, prompts: Heads, own: Heads, scale: float) -> Tensor:
    """Score the prompt by one product for all branches of a tree, then each branch by its own."""
    trees, branches, time, (heads, width) = b.num_trees, b.branches, b.suffix, own.query.shape[1:]
    kv = own.key.shape[1]
    repeat = heads // kv
    query = own.query.view(trees, branches, time, kv, repeat, width).permute(0, 3, 1, 4, 2, 5)
    query = query.reshape(trees * kv, branches * repeat * time, width)
    keys, values = (
        part.view(trees, branches, time, kv, width).permute(0, 3, 1, 2, 4).reshape(-1, time, width)
        for part in (own.key, own.value)
    )
    hidden = b.hidden_prompt.repeat_interleave(kv, 0)[:, None]
    past = b.past[:time, :time].repeat(repeat, 1)
    to_prompt = torch.baddbmm(hidden, query, _by_head(prompts.key, trees).transpose(1, 2), alpha=scale)
    to_self = torch.baddbmm(past, query.view(-1, repeat * time, width), keys.transpose(1, 2), alpha=scale)
    share = torch.cat([to_prompt.view(-1, repeat * time, b.prompt), to_self], -1).softmax(-1)
    on_prompt = share[..., : b.prompt].reshape(trees * kv, -1, b.prompt)
    out = torch.bmm(on_prompt, _by_head(prompts.value, trees)).view(-1, repeat * time, width)
    out = torch.baddbmm(out, share[..., b.prompt :], values).view(trees, kv, branches, repeat, time, width)
    return out.permute(0, 2, 4, 1, 3, 5).reshape(-1, heads, width)


def _fused_branches(b: Bucket, prompts: Heads, own: Heads, scale: float) -> Tensor:
    """Attend from each branch to a copy of its prompt and itself, a block of queries at a time."""
    rows, time, (heads, width), kv = b.num_trees * b.branches, b.suffix, own.query.shape[1:], own.key.shape[1]
    query = own.query.view(rows, time, heads, width).transpose(1, 2)
    keys, values = (
        torch.cat([_for_branches(b, prompt), part.view(rows, time, kv, width)], 1).transpose(1, 2)
        for part, prompt in ((own.key, prompts.key), (own.value, prompts.value))
    )
    hidden = b.hidden_prompt.repeat_interleave(b.branches, 0)[:, None, None]
    blocks = []
    for start in range(0, time, QUERY_BLOCK):
        end = min(time, start + QUERY_BLOCK)
        past = b.past[start:end, :end].expand(rows, 1, -1, -1)
        mask = torch.cat([hidden.expand(-1, -1, end - start, -1), past], -1)
        seen = b.prompt + end
        blocks.append(
            F.scaled_dot_product_attention(
                query[:, :, start:end], keys[:, :, :seen], values[:, :, :seen],
                attn_mask=mask, scale=scale, enable_gqa=heads != kv,
            )
        )  # fmt: skip
    return torch.cat(blocks, 2).transpose(1, 2).reshape(rows * time, heads, width)


def _for_branches(b: Bucket, prompt: Tensor) -> Tensor:
    kv, width = prompt.shape[1:]
    shared = prompt.view(b.num_trees, 1, b.prompt, kv, width)
    return shared.expand(-1, b.branches, -1, -1, -1).reshape(-1, b.prompt, kv, width)
