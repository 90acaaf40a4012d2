"""Batches written down row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from posttrain.batch import Batch


def batch_of(
    turns: Sequence[Sequence[int]],
    *,
    group: Sequence[int] | None = None,
    rewards: Sequence[float] | None = None,
    turn_rewards: Sequence[Sequence[float]] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Batch:
    """Return rows of one prompt token and `turns` (each token's turn, -1: not the policy's), all log 1.

    `turn_rewards` holds each row's process reward for each of its turns.
    """
    width = 1 + max(len(row) for row in turns)
    padded = torch.tensor([[-1, *row, *[-1] * (width - 1 - len(row))] for row in turns])
    placed = torch.zeros(len(turns), width, dtype=dtype)
    for row, values in enumerate(turn_rewards or []):
        for turn, value in enumerate(values):
            placed[row, int((padded[row] == turn).nonzero().max())] = value
    zeros = torch.zeros(len(turns), width, dtype=dtype)
    return Batch(
        tokens=torch.ones(len(turns), width, dtype=torch.int64),
        mask=padded >= 0,
        turn=padded,
        sampler_logprobs=zeros,
        rewards=torch.tensor(rewards or [0.0] * len(turns), dtype=dtype),
        turn_rewards=placed,
        advantages=zeros,
        lengths=torch.tensor([1 + len(row) for row in turns]),
        prompt_lengths=torch.ones(len(turns), dtype=torch.int64),
        group=torch.tensor(group or [0] * len(turns)),
        domain=torch.zeros(len(turns), dtype=torch.int64),
        temperature=torch.ones(len(turns)),
        row_weight=torch.ones(len(turns), dtype=dtype),
        anchor_logprobs=zeros,
        reference_logprobs=zeros,
    )


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    return batch_of
