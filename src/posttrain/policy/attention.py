"""Attention over trees: a prompt's tokens attend causally, its branches to the prompt and to themselves.

Every query sees one or two stretches of keys, and each pair of stretches is a matrix product of its own:
sequences of like lengths with themselves, all branches of a tree together with their prompt. What a query
finds in its two stretches is merged by log-sum-exp, exactly. Probabilities are not kept but computed again
in the backward pass (FlashAttention-2, arXiv:2307.08691, algorithms 1 and 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

MAX_SCORES = 2**21
"""Scores that are computed at a time (8 MiB in float32); longer stretches take blocks of queries."""
MIN_QUERY_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sequences of like lengths, padded at their ends to `length`.

    take      int64 [num_sequences · length]; the flat token in each slot, any where there is none
    padding   bool  [num_sequences · length]; the slots without a token, or None where all have one
    """

    num_sequences: int
    length: int
    take: Tensor
    padding: Tensor | None


@dataclass(frozen=True, slots=True)
class Junction:
    """All branches of a tree, which lie flat in one piece, and their prompt."""

    prompt: slice
    branches: slice

    @property
    def num_scores(self) -> int:
        queries = self.branches.stop - self.branches.start
        return int(queries * (self.prompt.stop - self.prompt.start))


@dataclass(frozen=True, slots=True)
class TreeAttention:
    """The `Attend` of a layout: every flat token is in one bucket; `give` [tokens] is its slot there."""

    buckets: tuple[Bucket, ...]
    junctions: tuple[Junction, ...]
    give: Tensor

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return [tokens, heads, width]; see `models.forward.Attend`."""
        mixed: Tensor = Mix.apply(query, key, value, scale, self)  # type: ignore[no-untyped-call]
        return mixed.transpose(0, 1)


class Part(NamedTuple):
    """Query, key and value, each [heads (· sequences), time, width]: keys repeated for all query heads."""

    query: Tensor
    key: Tensor
    value: Tensor


class Mix(torch.autograd.Function):
    """Mix values over all stretches; only inputs, output and log-sum-exp of scores are kept."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, plan: TreeAttention
    ) -> Tensor:
        part = _repeated(query, key, value)
        found = [_mix(_gather(part, bucket), scale, causal=True) for bucket in plan.buckets]
        heads, _, width = query.shape
        out = torch.cat([each.view(heads, -1, width) for each, _ in found], 1).index_select(1, plan.give)
        total = torch.cat([each.view(heads, -1) for _, each in found], 1).index_select(1, plan.give)
        for junction in plan.junctions:
            own_out, own_total = out[:, junction.branches], total[:, junction.branches]
            more, more_total = _mix(_across(part, junction), scale)
            merged = torch.logaddexp(own_total, more_total)
            own_out.mul_((own_total - merged).exp_()[..., None])
            own_out.add_(more * (more_total - merged).exp_()[..., None])
            own_total.copy_(merged)
        ctx.save_for_backward(query, key, value, out, total)
        ctx.scale, ctx.plan = scale, plan
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, total = ctx.saved_tensors
        plan, scale, gradient = ctx.plan, ctx.scale, gradients[0].contiguous()
        part, heads, width = _repeated(query, key, value), query.shape[0], query.shape[2]
        back = Back(gradient, total, (_precise(gradient) * _precise(out)).sum(-1))
        found = [
            _backward(_gather(part, bucket), back.gathered(bucket), scale, causal=True)
            for bucket in plan.buckets
        ]
        given = Part(
            *(
                torch.cat([each[i].view(heads, -1, width) for each in found], 1).index_select(1, plan.give)
                for i in range(3)
            )
        )
        for junction in plan.junctions:
            more = _backward(_across(part, junction), back.sliced(junction.branches), scale)
            given.query[:, junction.branches].add_(more.query)
            given.key[:, junction.prompt].add_(more.key)
            given.value[:, junction.prompt].add_(more.value)
        shared = (each.view(key.shape[0], -1, *each.shape[1:]).sum(1) for each in given[1:])
        return given.query, *shared, None, None


class Back(NamedTuple):
    """What flows back: the output's gradient, its scores' log-sum-exp, and gradient · output by query."""

    gradient: Tensor
    total: Tensor
    along: Tensor

    def gathered(self, bucket: Bucket) -> Back:
        """Return [heads · sequences, length, …]; queries that are padding give nothing back."""
        gradient, total, along = (_slots(each, bucket) for each in self)
        if bucket.padding is not None:
            padding = bucket.padding.view(1, bucket.num_sequences, bucket.length)
            total.view(-1, *padding.shape[1:]).masked_fill_(padding, torch.inf)
        return Back(gradient, total, along)

    def sliced(self, place: slice) -> Back:
        return Back(*(each[:, place] for each in self))


def _repeated(query: Tensor, key: Tensor, value: Tensor) -> Part:
    repeat = query.shape[0] // key.shape[0]
    return Part(query, key.repeat_interleave(repeat, 0), value.repeat_interleave(repeat, 0))


def _slots(rows: Tensor, bucket: Bucket) -> Tensor:
    """Return [heads · sequences, length, …] for [heads, tokens, …]."""
    return rows.index_select(1, bucket.take).view(-1, bucket.length, *rows.shape[2:])


def _gather(part: Part, bucket: Bucket) -> Part:
    return Part(*(_slots(each, bucket) for each in part))


def _across(part: Part, junction: Junction) -> Part:
    prompt = junction.prompt
    return Part(part.query[:, junction.branches], part.key[:, prompt], part.value[:, prompt])


class Block(NamedTuple):
    """A block of queries, and how many of the keys they see."""

    queries: slice
    num_keys: int


def _blocks(part: Part, causal: bool) -> Iterator[Block]:
    rows, time, num_keys = part.query.shape[0], part.query.shape[1], part.key.shape[1]
    size = max(MIN_QUERY_BLOCK, MAX_SCORES // (rows * num_keys))
    for start in range(0, time, size):
        end = min(time, start + size)
        yield Block(slice(start, end), end if causal else num_keys)


def _scores(part: Part, block: Block, scale: float, causal: bool) -> Tensor:
    """Return scores [rows, queries, keys] of a block in float32 or better, -inf where a key is later."""
    query, key = part.query[:, block.queries], part.key[:, : block.num_keys].transpose(1, 2)
    if not causal:
        return _precise(torch.bmm(query, key)).mul_(scale)
    past = torch.full((query.shape[1], block.num_keys), -torch.inf, dtype=query.dtype, device=query.device)
    return _precise(torch.baddbmm(past.triu_(block.queries.start + 1), query, key, alpha=scale))


def _precise(scores: Tensor) -> Tensor:
    return scores if scores.dtype == torch.float64 else scores.float()


def _mix(part: Part, scale: float, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Return the mixed values [rows, time, width] and the log-sum-exp of the scores [rows, time]."""
    outs, totals = [], []
    for block in _blocks(part, causal):
        scores = _scores(part, block, scale, causal)
        most = scores.amax(-1, keepdim=True)
        weights = scores.sub_(most).exp_()
        sums = weights.sum(-1, keepdim=True)
        values = part.value[:, : block.num_keys]
        outs.append(torch.bmm(weights.to(values.dtype), values).div_(sums))
        totals.append((most + sums.log_())[..., 0])
    return (outs[0], totals[0]) if len(outs) == 1 else (torch.cat(outs, 1), torch.cat(totals, 1))


def _backward(part: Part, back: Back, scale: float, causal: bool = False) -> Part:
    """Return the gradients of a part, given what flows back to its queries."""
    queries = []
    key, value = (torch.zeros_like(each, memory_format=torch.contiguous_format) for each in part[1:])
    for block in _blocks(part, causal):
        place, seen = block.queries, slice(0, block.num_keys)
        gradient = back.gradient[:, place]
        weights = _scores(part, block, scale, causal).sub_(back.total[:, place, None]).exp_()
        towards = _precise(torch.bmm(gradient, part.value[:, seen].transpose(1, 2)))
        towards = towards.sub_(back.along[:, place, None]).mul_(weights).mul_(scale).to(gradient.dtype)
        value[:, seen].baddbmm_(weights.to(gradient.dtype).transpose(1, 2), gradient)
        key[:, seen].baddbmm_(towards.transpose(1, 2), part.query[:, place])
        queries.append(torch.bmm(towards, part.key[:, seen]))
    return Part(queries[0] if len(queries) == 1 else torch.cat(queries, 1), key, value)
