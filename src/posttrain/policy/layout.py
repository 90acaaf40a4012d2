"""How a micro-batch lies in memory: flat tokens, each group's prompt once, and who attends to whom.

A *tree* is a prompt with the rows that branch from it. Linear layers see the trees' real tokens alone;
attention (`attention.py`) sees trees of similar shape padded into a bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.policy.attention import Bucket, TreeAttention

Kind = Literal["shared", "full"]

PADDING_SHARE = 1.5
"""A bucket's padded attention may cost this many times its real attention …"""
FREE_SCORES = 2**19
"""… beyond this many scores per head, below which one more call costs more than the padding."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A micro-batch ready for `models.forward.hidden_states`.

    tokens, positions  int64 [flat]
    source             int64 [scored]; the flat token whose hidden state predicts each scored token,
                       in the order of `batch.mask.nonzero()`
    """

    tokens: Tensor
    positions: Tensor
    source: Tensor
    attend: TreeAttention


@dataclass(frozen=True, slots=True)
class Tree:
    """A prompt (the first `prompt` tokens of `rows[0]`) and the rows that continue it.

    A row alone is all prompt: `branches` is empty.
    """

    prompt: int
    rows: tuple[int, ...]
    branches: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        return self.prompt + sum(self.branches)


def trees(batch: Batch, kind: Kind) -> list[Tree]:
    """Return the batch's trees in row order: one for each group if shared, else one for each row."""
    lengths, prompts = batch.lengths.tolist(), batch.prompt_lengths.tolist()
    groups = batch.group.tolist() if kind == "shared" else list(range(batch.num_rows))
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    grown = []
    for rows in members.values():
        prompt = prompts[rows[0]]
        assert all(prompts[row] == prompt for row in rows), "rows of a group share their prompt"
        if len(rows) == 1:
            grown.append(Tree(lengths[rows[0]], tuple(rows), ()))
        else:
            grown.append(Tree(prompt, tuple(rows), tuple(lengths[row] - prompt for row in rows)))
    return grown


def lay_out(batch: Batch, kind: Kind, dtype: torch.dtype, device: torch.device) -> Layout:
    """Return the flat layout of a CPU micro-batch on `device`; attention masks have the model's `dtype`."""
    flat, starts, num_tokens = _flat_index(batch, forest := trees(batch, kind))
    width = batch.tokens.shape[1]
    real = torch.arange(width) < batch.lengths[:, None]
    tokens = torch.zeros(num_tokens, dtype=torch.int64)
    positions = torch.zeros(num_tokens, dtype=torch.int64)
    tokens[flat[real]] = batch.tokens[real]
    positions[flat[real]] = torch.arange(width).expand_as(flat)[real]
    row, time = batch.mask.nonzero(as_tuple=True)
    assert bool((time > 0).all()), "a row's first token has nothing that predicts it"
    attend = _attention(forest, starts, num_tokens, device, dtype)
    return Layout(tokens.to(device), positions.to(device), flat[row, time - 1].to(device), attend)


def _flat_index(batch: Batch, forest: list[Tree]) -> tuple[Tensor, dict[int, list[int]], int]:
    """Return where each token lies [row, time], where each tree's parts start, and the flat length."""
    flat = torch.zeros(batch.tokens.shape, dtype=torch.int64)
    starts: dict[int, list[int]] = {}
    offset = 0
    for number, tree in enumerate(forest):
        flat[list(tree.rows), : tree.prompt] = torch.arange(offset, offset + tree.prompt)
        starts[number] = [offset]
        offset += tree.prompt
        for row, length in zip(tree.rows, tree.branches, strict=bool(tree.branches)):
            flat[row, tree.prompt : tree.prompt + length] = torch.arange(offset, offset + length)
            starts[number].append(offset)
            offset += length
    return flat, starts, offset


def _attention(
    forest: list[Tree],
    starts: dict[int, list[int]],
    num_tokens: int,
    device: torch.device,
    dtype: torch.dtype,
) -> TreeAttention:
    """Put each tree into a bucket and every token into its slot."""
    buckets, take, offset = [], [], 0
    give = torch.zeros(num_tokens, dtype=torch.int64)
    for numbers in _bucketed(forest):
        members = [forest[number] for number in numbers]
        prompt, branches, suffix = _shape(members)
        slots = torch.zeros(len(members) * (prompt + branches * suffix), dtype=torch.int64)
        for place, (number, tree) in enumerate(zip(numbers, members, strict=True)):
            parts = [(place * prompt, tree.prompt)]
            first = len(members) * prompt + place * branches * suffix
            parts += [(first + i * suffix, length) for i, length in enumerate(tree.branches)]
            for (slot, length), start in zip(parts, starts[number], strict=True):
                slots[slot : slot + length] = torch.arange(start, start + length)
                give[start : start + length] = torch.arange(offset + slot, offset + slot + length)
        prompts = torch.tensor([tree.prompt for tree in members], device=device)
        buckets.append(Bucket.of(prompts, prompt, branches, suffix, dtype))
        take.append(slots)
        offset += len(slots)
    empty = torch.ones(offset, dtype=torch.bool).index_fill_(0, give, False)
    padding = empty.nonzero()[:, 0]
    return TreeAttention(tuple(buckets), torch.cat(take).to(device), give.to(device), padding.to(device))


def _shape(members: list[Tree]) -> tuple[int, int, int]:
    """Return the longest prompt, the most branches and the longest branch."""
    branches = max(len(tree.branches) for tree in members)
    return (
        max(tree.prompt for tree in members),
        branches,
        max((length for tree in members for length in tree.branches), default=0),
    )


def _scores(count: int, shape: tuple[int, int, int]) -> int:
    prompt, branches, suffix = shape
    return count * (prompt * prompt + branches * suffix * (prompt + suffix))


def _bucketed(forest: list[Tree]) -> list[list[int]]:
    """Gather trees of similar shape: deterministic, each list in order of shape."""
    order = sorted(range(len(forest)), key=lambda n: (bool(forest[n].branches), _shape([forest[n]]), n))
    buckets: list[list[int]] = []
    for number in order:
        joined = [*buckets[-1], number] if buckets else []
        if joined and _fits([forest[n] for n in joined]):
            buckets[-1] = joined
        else:
            buckets.append([number])
    return buckets


def _fits(members: list[Tree]) -> bool:
    if bool(members[0].branches) != bool(members[-1].branches):
        return False
    real = sum(_scores(1, _shape([tree])) for tree in members)
    return _scores(len(members), _shape(members)) <= max(FREE_SCORES, PADDING_SHARE * real)
