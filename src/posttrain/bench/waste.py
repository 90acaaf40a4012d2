"""How much of a micro-batch's work is padding, on lengths as skewed as real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedConfig

from posttrain.batch import Batch
from posttrain.policy.layout import Kind, Tree, lay_out, trees
from posttrain.policy.microbatch import split
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal lengths: medians in tokens, and the standard deviation of their logarithms."""

    groups: int = 64
    attempts: int = 8
    prompt: int = 100
    completion: int = 100
    spread: float = 1.0
    longest: int = 2048


@dataclass(frozen=True, slots=True)
class Waste:
    """Shares of what is computed that is padding.

    linear       of the tokens that linear layers see
    slots        of the slots in which attention's queries lie
    scores       of the attention scores: products of queries with keys that are padding or for padding
    work         of all multiplications, linear layers and attention together
    padded_rows  the same as `linear` where rows are padded to the longest of a random micro-batch
    """

    linear: float
    slots: float
    scores: float
    work: float
    padded_rows: float

    def text(self) -> str:
        """Return the shares in one line."""
        return (
            f"padding on log-normal lengths: {self.linear:.2%} of linear layers' tokens, {self.slots:.2%} of "
            f"attention's slots, {self.scores:.2%} of its scores, {self.work:.2%} of all work "
            f"(padded rows: {self.padded_rows:.2%} of tokens)"
        )


def measure(config: PreTrainedConfig, lengths: Lengths, token_budget: int, kind: Kind = "shared") -> Waste:
    """Return the waste of the learner's layout on one batch, micro-batch by micro-batch."""
    batch = drawn(lengths)
    parts = [batch.rows(rows) for rows in split(batch, token_budget, kind)]
    laid = [lay_out(part, kind, torch.device("cpu")) for part in parts]
    grown = [tree for part in parts for tree in trees(part, kind)]
    tokens, flat = sum(tree.num_tokens for tree in grown), sum(len(layout.tokens) for layout in laid)
    slots, computed = 0, 0
    for attend in (layout.attend for layout in laid):
        slots += sum(bucket.num_sequences * bucket.length for bucket in attend.buckets)
        computed += sum(bucket.num_sequences * bucket.length**2 for bucket in attend.buckets)
        computed += sum(junction.num_scores for junction in attend.junctions)
    real = sum(map(scores, grown))
    each_token, each_score = _multiplications(config)
    work = each_token * flat + each_score * computed
    return Waste(
        linear=1 - tokens / flat,
        slots=1 - tokens / slots,
        scores=1 - real / computed,
        work=1 - (each_token * tokens + each_score * real) / work,
        padded_rows=_padded_rows(batch, token_budget),
    )


def scores(tree: Tree) -> int:
    """Count a tree's scores of real queries with real keys; the masked upper triangle counts as computed."""
    return tree.prompt**2 + sum(length * (tree.prompt + length) for length in tree.branches)


def drawn(lengths: Lengths) -> Batch:
    """Return attempts of log-normal lengths; their tokens are all alike."""
    chance = np.random.Generator(np.random.Philox(0))

    def tokens(median: int, count: int) -> list[int]:
        sizes = median * np.exp(lengths.spread * chance.standard_normal(count))
        return [int(size) for size in np.clip(np.rint(sizes), 1, lengths.longest)]

    prompts = tokens(lengths.prompt, lengths.groups)
    return Batch.of(
        [_group(i, prompt, tokens(lengths.completion, lengths.attempts)) for i, prompt in enumerate(prompts)]
    )


def _group(sequence: int, prompt: int, answers: Sequence[int]) -> Group:
    asked, answer = Turn(Message("user", ""), (1,) * prompt), Message("assistant", "")
    task = Task(str(sequence), "lengths", 0, (asked.message,), {})
    tried = tuple(
        Trajectory(task, (asked, Turn(answer, (1,) * count, (0.0,) * count, version=0)), "stop")
        for count in answers
    )
    return Group(sequence, task, tried, tuple(Reward(0.0) for _ in tried))


def _multiplications(config: PreTrainedConfig) -> tuple[float, float]:
    """Return how many a token costs in all linear layers but the head, and a score in all layers."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    width = getattr(config, "head_dim", None) or hidden // heads
    projections = hidden * width * (2 * heads + 2 * config.num_key_value_heads)
    layer = projections + 3 * hidden * config.intermediate_size
    return config.num_hidden_layers * layer, config.num_hidden_layers * 2 * heads * width


def _padded_rows(batch: Batch, token_budget: int) -> float:
    """Return the padding of random micro-batches of whole rows, each padded to its longest."""
    order = np.random.Generator(np.random.Philox(1)).permutation(batch.num_rows)
    lengths = batch.lengths.numpy()[order]
    rows = max(1, token_budget // int(lengths.mean()))
    parts = [lengths[start : start + rows] for start in range(0, len(lengths), rows)]
    return 1 - float(lengths.sum()) / float(sum(len(part) * part.max() for part in parts))
