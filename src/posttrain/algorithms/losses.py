"""Terms of a loss, token by token: ratios and clipping on [row, time] tensors, and sums over rows."""

from __future__ import annotations

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.protocols import Outputs

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut to ± this (e²⁰ ≈ 4.9e8), so one token cannot overflow float32 or its gradient.

Beyond it the gradient of that token is 0: it is too far off-policy to teach anything.
"""


def bounded_exp(log_ratio: Tensor) -> Tensor:
    """Return exp(log_ratio), the log cut to ± MAX_LOG_RATIO."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def ratio(logprobs: Tensor, other: Tensor) -> Tensor:
    """Return exp(logprobs − other), the log cut to ± MAX_LOG_RATIO."""
    return bounded_exp(logprobs - other)


def sequence_ratio(logprobs: Tensor, other: Tensor, batch: Batch) -> Tensor:
    """Return s_it = (π(y_i)/π_other(y_i))^(1/|y_i|): each row's ratio at all its tokens [row, time].

    Zheng et al. 2025 (arXiv:2507.18071), eq. 7, in GSPO-token's form (eq. 14): the value is the row's, the
    gradient of each place is s_i ∇ log π(y_it) of its own token.
    """
    gap = torch.where(batch.mask, logprobs - other, 0.0).detach()
    mean = gap.sum(1, keepdim=True) / num_scored(batch)[:, None]
    return bounded_exp(mean + logprobs - logprobs.detach())


def anchor_of(outputs: Outputs, batch: Batch) -> Tensor:
    """Return the log-probabilities that the ratio is taken to: those before the update, without gradient.

    On a batch's first optimizer step they are the current ones, so no forward pass is spent on them.
    """
    return outputs.logprobs.detach() if batch.anchor_logprobs is None else batch.anchor_logprobs


def clipped_surrogate(ratios: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """Return min(ρ A, clip(ρ, 1 − low, 1 + high) A): Schulman et al. 2017 (arXiv:1707.06347), eq. 7.

    `high` > `low` is the clip-higher of DAPO (arXiv:2503.14476), eq. 10.
    """
    return torch.minimum(ratios * advantages, ratios.clamp(1.0 - low, 1.0 + high) * advantages)


def over_rows(values: Tensor, batch: Batch) -> Tensor:
    """Sum [row, time] over each row's scored tokens and give each row its weight: [row]."""
    return torch.where(batch.mask, values, 0.0).sum(1) * batch.row_weight


def num_scored(batch: Batch) -> Tensor:
    """Count each row's scored tokens, at least 1: float [row]."""
    return batch.mask.sum(1).clamp(min=1).to(batch.row_weight.dtype)
