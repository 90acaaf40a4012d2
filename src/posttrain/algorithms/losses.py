"""Terms of a loss, token by token: ratios, clipping, corrections and divergences on [row, time] tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.protocols import Outputs

MAX_LOG_RATIO = 20.0
"""Log-ratios are cut to ± this (e²⁰ ≈ 4.9e8), so one token cannot overflow float32 or its gradient.

Beyond it the gradient of that token is 0: it is too far off-policy to teach anything.
"""


def ratio(logprobs: Tensor, other: Tensor) -> Tensor:
    """Return exp(logprobs − other), the log cut to ± MAX_LOG_RATIO."""
    return (logprobs - other).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


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


def truncated_correction(anchor: Tensor, sampler: Tensor, cap: float) -> Tensor:
    """Return min(anchor / sampler, cap) as probabilities, detached; ones if `cap` is 0.

    It weighs a token by how likely the trainer's numerics or a newer version are to write it.
    """
    if cap == 0:
        return torch.ones_like(anchor)
    return ratio(anchor.detach(), sampler).clamp(max=cap)


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return π_ref/π − log(π_ref/π) − 1 ≥ 0: the KL estimate of arXiv:2402.03300, eq. 4 (Schulman's k3)."""
    log_ratio = (reference - logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return log_ratio.exp() - log_ratio - 1.0


def over_rows(values: Tensor, batch: Batch) -> Tensor:
    """Sum [row, time] over each row's scored tokens and give each row its weight: [row]."""
    return torch.where(batch.mask, values, 0.0).sum(1) * batch.row_weight


def num_scored(batch: Batch) -> Tensor:
    """Count each row's scored tokens, at least 1: float [row]."""
    return batch.mask.sum(1).clamp(min=1).to(batch.row_weight.dtype)
