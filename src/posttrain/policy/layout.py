"""How a micro-batch lies in memory: flat tokens, each group's prompt once, and who attends to whom.

A *tree* is a prompt with the rows that branch from it. Linear layers see the trees' real tokens alone;
attention (`attention.py`) sees sequences of like lengths padded into a bucket, and a tree's branches as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.policy.attention import Bucket, Junction, TreeAttention

Kind = Literal["shared", "full"]

MAX_PADDING = 12
"""Lengths in a bucket may differ by so many tokens. What that adds to a token is at most about 24 scores:
1 % of its linear layers in a model of 135 M parameters, less in larger ones."""


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


def lay_out(batch: Batch, kind: Kind, device: torch.device) -> Layout:
    """Return the flat layout of a CPU micro-batch on `device`."""
    flat, starts, num_tokens = _flat_index(batch, forest := trees(batch, kind))
    width = batch.tokens.shape[1]
    real = torch.arange(width) < batch.lengths[:, None]
    tokens = torch.zeros(num_tokens, dtype=torch.int64)
    positions = torch.zeros(num_tokens, dtype=torch.int64)
    tokens[flat[real]] = batch.tokens[real]
    positions[flat[real]] = torch.arange(width).expand_as(flat)[real]
    row, time = batch.mask.nonzero(as_tuple=True)
    assert bool((time > 0).all()), "a row's first token has nothing that predicts it"
    attend = _attention(forest, starts, num_tokens, device)
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
    forest: list[Tree], starts: dict[int, list[int]], num_tokens: int, device: torch.device
) -> TreeAttention:
    """Put every sequence into a bucket of like lengths, and join each tree's branches to its prompt."""
    sequences = [
        (length, start)
        for number, tree in enumerate(forest)
        for length, start in zip((tree.prompt, *tree.branches), starts[number], strict=True)
        if length
    ]
    buckets, offset = [], 0
    give = torch.zeros(num_tokens, dtype=torch.int64)
    for members in alike(sequences):
        longest = members[-1][0]
        take = torch.zeros(len(members), longest, dtype=torch.int64)
        padding = torch.ones(len(members), longest, dtype=torch.bool)
        for place, (length, start) in enumerate(members):
            take[place, :length] = torch.arange(start, start + length)
            padding[place, :length] = False
            first = offset + place * longest
            give[start : start + length] = torch.arange(first, first + length)
        hidden = padding.view(-1).to(device) if bool(padding.any()) else None
        buckets.append(Bucket(len(members), longest, take.view(-1).to(device), hidden))
        offset += len(members) * longest
    junctions = [
        Junction(slice(first, first + tree.prompt), slice(first + tree.prompt, first + tree.num_tokens))
        for first, tree in ((starts[number][0], tree) for number, tree in enumerate(forest))
        if tree.branches and tree.prompt
    ]
    return TreeAttention(tuple(buckets), tuple(junctions), give.to(device))


def alike(sequences: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Gather (length, start) in order of length, so that lengths of a list differ by MAX_PADDING at most."""
    gathered: list[list[tuple[int, int]]] = []
    for sequence in sorted(sequences):
        if gathered and sequence[0] - gathered[-1][0][0] <= MAX_PADDING:
            gathered[-1].append(sequence)
        else:
            gathered.append([sequence])
    return gathered
