"""Rewards → advantages: how much better than its group each row did, [row] in and out.

All are exactly 0 where a group's rewards are equal (rounding cannot leave a trace) and scale with the
rewards, or are free of their scale, exactly: nothing is added to a denominator.
"""

from __future__ import annotations

import torch
from torch import Tensor

from posttrain.types import Group


def varied(group: Group) -> bool:
    """Tell whether at least two attempts are judged and their rewards differ."""
    values = group.values
    return len(values) >= 2 and max(values) != min(values)


def centred(rewards: Tensor, group: Tensor) -> Tensor:
    """Return r_i − mean of its group: the baseline of GRPO and Dr. GRPO."""
    mean, _ = _moments(rewards, group)
    difference = (rewards.double() - mean).to(rewards.dtype)
    return torch.where(_varies(rewards, group), difference, 0.0)


def leave_one_out(rewards: Tensor, group: Tensor) -> Tensor:
    """Return r_i − mean of the group's other rows: the baseline of Kool et al. 2019.

    Unbiased, since r_i is not in its own baseline.
    Equals k / (k − 1) · (r_i − mean) for a group of k rows; 0 for a row alone.
    """
    size = _size(group).double()
    return centred(rewards, group) * (size / (size - 1).clamp(min=1)).to(rewards.dtype)


def standardised(rewards: Tensor, group: Tensor) -> Tensor:
    """Return (r_i − mean) / standard deviation of its group, the population's (divided by k)."""
    mean, variance = _moments(rewards, group)
    varies = _varies(rewards, group)
    score = (rewards.double() - mean) / torch.where(varies, variance, 1.0).sqrt()
    return torch.where(varies, score.to(rewards.dtype), 0.0)


def plain(rewards: Tensor, group: Tensor) -> Tensor:
    """Return the rewards as they are: no row is compared with its group."""
    return rewards


def over_batch(values: Tensor, mask: Tensor) -> Tensor:
    """Return (v − mean) / standard deviation over all scored tokens of the batch [row, time], 0 elsewhere.

    The population's deviation, each token weighing the same: Hu et al. 2025 (arXiv:2501.03262).
    """
    scored = values[mask].double()
    if scored.numel() == 0 or bool((scored == scored[0]).all()):
        return torch.zeros_like(values)
    score = (values.double() - scored.mean()) / scored.std(correction=0)
    return torch.where(mask, score.to(values.dtype), 0.0)


def over_tokens(advantages: Tensor, mask: Tensor) -> Tensor:
    """Give each row's advantage [row] to all its scored tokens: [row, time], 0 outside `mask`."""
    return torch.where(mask, advantages[:, None], 0.0)


def _size(group: Tensor) -> Tensor:
    return (group[:, None] == group[None]).sum(1)


def _same(group: Tensor) -> Tensor:
    return (group[:, None] == group[None]).double()


def _moments(rewards: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's group mean and population variance, in float64."""
    same, size = _same(group), _size(group)
    mean = same @ rewards.double() / size
    deviation = rewards.double() - mean
    return mean, same @ deviation.square() / size


def _varies(rewards: Tensor, group: Tensor) -> Tensor:
    same = group[:, None] == group[None]
    return (same & (rewards[:, None] != rewards[None])).any(1)
