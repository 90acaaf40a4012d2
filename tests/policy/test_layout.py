"""Flat layouts hold each shared prompt once, and score the right tokens from the right places."""

from __future__ import annotations

import pytest
import torch

from posttrain.batch import Batch
from posttrain.policy.layout import lay_out, trees

CPU = torch.device("cpu")


def test_a_shared_prompt_lies_flat_once(make_groups):
    batch = Batch.of(make_groups([(3, [2, 1])]))
    layout = lay_out(batch, "shared", torch.float32, CPU)
    prompt, first, second = batch.tokens[0, :3], batch.tokens[0, 3:5], batch.tokens[1, 3:4]
    assert layout.tokens.tolist() == torch.cat([prompt, first, second]).tolist()
    assert layout.positions.tolist() == [0, 1, 2, 3, 4, 3]
    assert layout.source.tolist() == [2, 3, 2]  # both first answer tokens come from the prompt's last


def test_full_rows_each_have_their_prompt(make_groups):
    batch = Batch.of(make_groups([(3, [2, 1])]))
    layout = lay_out(batch, "full", torch.float32, CPU)
    assert len(layout.tokens) == 5 + 4
    assert layout.source.tolist() == [2, 3, 7]


def test_a_row_alone_is_all_prompt(batch):
    assert [(tree.prompt, tree.branches) for tree in trees(batch, "shared")] == [
        (5, (3, 1, 4)),
        (9, (2, 6)),
        (9, ()),
        (6, (1, 2, 3, 4)),
    ]


def test_small_trees_share_a_bucket_and_unlike_large_ones_do_not(make_groups):
    small = Batch.of(make_groups([(5, [3, 1]), (9, [2, 6])]))
    assert len(lay_out(small, "shared", torch.float32, CPU).attend.buckets) == 1
    unlike = Batch.of(make_groups([(5, [600, 600]), (1200, [5, 5])]))
    assert len(lay_out(unlike, "shared", torch.float32, CPU).attend.buckets) == 2


def test_prompts_of_one_group_must_agree(batch):
    prompts = batch.prompt_lengths.clone()
    prompts[0] = 4
    object.__setattr__(batch, "prompt_lengths", prompts)
    with pytest.raises(AssertionError, match="share their prompt"):
        trees(batch, "shared")
