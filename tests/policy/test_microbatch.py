"""Micro-batches keep the order, hold each row once, and stay within the budget."""

from __future__ import annotations

import pytest

from posttrain.batch import Batch
from posttrain.policy.microbatch import split


def parts(batch, budget, kind="shared"):
    return [rows.tolist() for rows in split(batch, budget, kind)]


def test_groups_stay_together_while_they_fit(make_groups):
    """Groups cost 10 + 4·2 = 18 tokens each: two fit into 40, and the attention's share adds under 1."""
    batch = Batch.of(make_groups([(10, [2] * 4)] * 3))
    assert parts(batch, 40) == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]]


def test_full_rows_pay_for_each_prompt(make_groups):
    batch = Batch.of(make_groups([(10, [2] * 4)]))
    assert parts(batch, 25, "full") == [[0, 1], [2, 3]]


def test_a_group_over_the_budget_is_split_and_pays_its_prompt_again(make_groups):
    """Prompt 10; rows of 10: one part holds 10 + 2·10 = 30."""
    batch = Batch.of(make_groups([(10, [10] * 5)]))
    assert parts(batch, 31) == [[0, 1], [2, 3], [4]]


def test_a_row_over_the_budget_runs_alone(make_groups):
    batch = Batch.of(make_groups([(3, [2]), (10, [90]), (3, [2])]))
    assert parts(batch, 20) == [[0], [1], [2]]


def test_long_context_costs_more_than_its_tokens(make_groups):
    """Rows of 4096 tokens cost 4096 · 1.5 each, so two do not fit into 10,000."""
    batch = Batch.of(make_groups([(96, [4000]), (96, [4000])]))
    assert parts(batch, 10_000) == [[0], [1]]
    assert parts(batch, 12_300) == [[0, 1]]


@pytest.mark.parametrize("budget", [1, 7, 13, 30, 1000])
@pytest.mark.parametrize("kind", ["shared", "full"])
def test_every_row_appears_once_in_order(batch, budget, kind):
    assert [row for part in parts(batch, budget, kind) for row in part] == list(range(batch.num_rows))
