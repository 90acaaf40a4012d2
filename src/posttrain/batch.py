"""Groups → tensors [row, time]: the one place that pads attempts into a Batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from posttrain.types import Group, Reward, Trajectory


@dataclass(frozen=True, slots=True)
class Batch:
    """Attempts as padded tensors; a row is a whole sequence, prompt included.

    tokens            int64 [row, time]; 0 where padded
    mask              bool  [row, time]; True where the policy wrote the token (it is scored)
    turn              int64 [row, time]; index of the policy's turn, -1 elsewhere
    sampler_logprobs  float32 [row, time]; as sampled, 0 outside the mask
    rewards           float32 [row]; by_turn rewards are in `turn_rewards`
    turn_rewards      float32 [row, time]; a turn's process reward on its last token
    advantages        float32 [row, time]
    lengths, prompt_lengths, group, domain   int64 [row]
    temperature, row_weight                  float32 [row]
    anchor_logprobs, reference_logprobs, values   float32 [row, time] or None

    Rows of one group are adjacent and share their first `prompt_lengths` tokens.
    """

    tokens: Tensor
    mask: Tensor
    turn: Tensor
    sampler_logprobs: Tensor
    rewards: Tensor
    turn_rewards: Tensor
    advantages: Tensor
    lengths: Tensor
    prompt_lengths: Tensor
    group: Tensor
    domain: Tensor
    temperature: Tensor
    row_weight: Tensor
    anchor_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None
    values: Tensor | None = None

    @property
    def num_rows(self) -> int:
        return self.tokens.shape[0]

    @property
    def num_scored(self) -> int:
        """Count the tokens that enter the loss."""
        return int(self.mask.sum())

    @classmethod
    def of(cls, groups: Sequence[Group], weights: Sequence[float] | None = None) -> Batch:
        """Return the judged attempts of `groups` as one batch, on the CPU.

        `weights` holds one loss weight for each group (default 1.0).
        """
        rows = [(i, t, r) for i, g in enumerate(groups) for t, r in g.judged]
        assert rows, "a batch needs at least one judged attempt"
        names = {name: i for i, name in enumerate(sorted({g.task.domain for g in groups}))}
        width = max(len(t.tokens) for _, t, _ in rows)
        per_group = [1.0] * len(groups) if weights is None else weights
        columns = [_row(t, r, width) for _, t, r in rows]
        stacked = {key: torch.stack([column[key] for column in columns]) for key in columns[0]}
        return cls(
            **stacked,
            advantages=torch.zeros(len(rows), width),
            group=torch.tensor([i for i, _, _ in rows]),
            domain=torch.tensor([names[t.task.domain] for _, t, _ in rows]),
            row_weight=torch.tensor([float(per_group[i]) for i, _, _ in rows]),
        )

    def rows(self, index: Tensor) -> Batch:
        """Return the given rows (int64 [n]), cut to their longest."""
        width = int(self.lengths[index].max())

        def cut(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            taken = value[index]
            return taken[:, :width] if taken.dim() == 2 else taken

        picked: dict[str, Any] = {f.name: cut(getattr(self, f.name)) for f in fields(self)}
        return replace(self, **picked)

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on `device`."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {name: v if v is None else v.to(device) for name, v in columns.items()}
        return replace(self, **moved)


def _row(trajectory: Trajectory, reward: Reward, width: int) -> dict[str, Tensor]:
    tokens = torch.zeros(width, dtype=torch.int64)
    turn = torch.full((width,), -1, dtype=torch.int64)
    logprobs, turn_rewards = torch.zeros(width), torch.zeros(width)
    position, num_turns = 0, 0
    for part in trajectory.turns:
        end = position + len(part.tokens)
        tokens[position:end] = torch.tensor(part.tokens, dtype=torch.int64)
        if part.logprobs is not None and end > position:
            turn[position:end] = num_turns
            logprobs[position:end] = torch.tensor(part.logprobs)
            if reward.by_turn:
                turn_rewards[end - 1] = reward.by_turn[num_turns]
            num_turns += 1
        position = end
    return {
        "tokens": tokens,
        "mask": turn >= 0,
        "turn": turn,
        "sampler_logprobs": logprobs,
        "rewards": torch.tensor(float(reward.value)),
        "turn_rewards": turn_rewards,
        "lengths": torch.tensor(position),
        "prompt_lengths": torch.tensor(len(trajectory.turns[0].tokens)),
        "temperature": torch.tensor(trajectory.temperature),
    }
