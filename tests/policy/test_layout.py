"""Flat layouts hold each shared prompt once, and score the right tokens from the right places."""

from __future__ import annotations

import pytest
import torch

from posttrain.batch import Batch
from posttrain.policy.layout import MAX_PADDING, alike, lay_out, trees

CPU = torch.device("cpu")


def test_a_shared_prompt_lies_flat_once(make_groups):
    batch = Batch.of(make_groups([(3, [2, 1])]))
    layout = lay_out(batch, "shared", CPU)
    prompt, first, second = batch.tokens[0, :3], batch.tokens[0, 3:5], batch.tokens[1, 3:4]
    assert layout.tokens.tolist() == torch.cat([prompt, first, second]).tolist()
    assert layout.positions.tolist() == [0, 1, 2, 3, 4, 3]
    assert layout.source.tolist() == [2, 3, 2]  # both first answer tokens come from the prompt's last


def test_full_rows_each_have_their_prompt(make_groups):
    batch = Batch.of(make_groups([(3, [2, 1])]))
    layout = lay_out(batch, "full", CPU)
    assert len(layout.tokens) == 5 + 4
    assert layout.source.tolist() == [2, 3, 7]


def test_a_row_alone_is_all_prompt(batch):
    assert [(tree.prompt, tree.branches) for tree in trees(batch, "shared")] == [
        (5, (3, 1, 4)),
        (9, (2, 6)),
        (9, ()),
        (6, (1, 2, 3, 4)),
    ]


def test_sequences_of_like_lengths_share_a_bucket_and_branches_join_their_prompt(make_groups):
    attend = lay_out(Batch.of(make_groups([(5, [3, 1]), (40, [45, 6])])), "shared", CPU).attend
    assert [(bucket.num_sequences, bucket.length) for bucket in attend.buckets] == [(4, 6), (2, 45)]
    assert [bucket.padding.sum() for bucket in attend.buckets] == [4 * 6 - (5 + 3 + 1 + 6), 5]
    assert [junction.num_scores for junction in attend.junctions] == [5 * 4, 40 * 51]
    assert sorted(attend.give.tolist()) == sorted(set(attend.give.tolist()))


def test_lengths_of_a_bucket_differ_by_the_allowed_padding_at_most():
    gathered = alike([(MAX_PADDING + 2, 7), (1, 3), (MAX_PADDING + 1, 5), (1, 1)])
    assert gathered == [[(1, 1), (1, 3), (MAX_PADDING + 1, 5)], [(MAX_PADDING + 2, 7)]]


def test_prompts_of_one_group_must_agree(batch):
    prompts = batch.prompt_lengths.clone()
    prompts[0] = 4
    object.__setattr__(batch, "prompt_lengths", prompts)
    with pytest.raises(AssertionError, match="share their prompt"):
        trees(batch, "shared")
