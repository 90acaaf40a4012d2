"""A batch → micro-batches that fit a token budget, in order of sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.policy.layout import Kind

CONTEXT_PER_TOKEN = 4096
"""Attending over this much context costs about as much as one token's linear layers."""


def split(batch: Batch, token_budget: int, kind: Kind) -> list[Tensor]:
    """Return row indices (int64) of micro-batches: each row once, in order, each within the budget.

    A row costs n + n · context / CONTEXT_PER_TOKEN for its n new tokens; a shared prompt counts once in
    each micro-batch that it appears in. A group is split only if it exceeds the budget alone, and a row
    that exceeds it runs alone.
    """
    parts: list[list[int]] = []
    current: list[int] = []
    spent = 0.0
    for rows in _groups(batch, kind):
        whole = _cost_of(batch, rows, kind)
        if current and spent + whole > token_budget:
            parts.append(current)
            current, spent = [], 0.0
        for start, row in enumerate(rows):
            shares = kind == "shared" and start > 0 and current[-1:] == [rows[start - 1]]
            cost = _row_cost(batch, row, shares)
            if current and spent + cost > token_budget:
                parts.append(current)
                current, spent, cost = [], 0.0, _row_cost(batch, row, False)
            current.append(row)
            spent += cost
    return [torch.tensor(rows) for rows in [*parts, current] if rows]


def _groups(batch: Batch, kind: Kind) -> list[list[int]]:
    if kind == "full":
        return [[row] for row in range(batch.num_rows)]
    members: dict[int, list[int]] = {}
    for row, group in enumerate(batch.group.tolist()):
        members.setdefault(group, []).append(row)
    return list(members.values())


def _cost_of(batch: Batch, rows: list[int], kind: Kind) -> float:
    return sum(_row_cost(batch, row, kind == "shared" and i > 0) for i, row in enumerate(rows))


def _row_cost(batch: Batch, row: int, shares_prompt: bool) -> float:
    length = int(batch.lengths[row])
    known = int(batch.prompt_lengths[row]) if shares_prompt else 0
    new = length - known
    return new + new * (known + new / 2) / CONTEXT_PER_TOKEN
