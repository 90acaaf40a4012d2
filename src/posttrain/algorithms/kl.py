"""The divergence from the reference: three estimates from sampled tokens, in the loss or in the reward.

Which of them pulls toward the reference as KL(π ‖ π_ref) does is a matter of place; `Divergence` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from posttrain.algorithms.losses import MAX_LOG_RATIO, ratio
from posttrain.batch import Batch

Estimate = Literal["k1", "k2", "k3"]


def k1(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return log(π/π_ref): unbiased, but often negative."""
    return logprobs - reference


def k2(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return ½ log²(π/π_ref) ≥ 0: biased as a value, of low variance."""
    return 0.5 * (logprobs - reference).square()


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return π_ref/π − log(π_ref/π) − 1 ≥ 0: unbiased (Schulman's k3; arXiv:2402.03300, eq. 4)."""
    log_ratio = (reference - logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return log_ratio.exp() - log_ratio - 1.0


ESTIMATES: Mapping[Estimate, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


@dataclass(frozen=True, slots=True)
class Divergence:
    """How the KL to the reference is estimated and where it acts; gradients in expectation, on policy:

                in the loss          in the loss, weighted    in the reward
        k1      0: no pull at all    ∇ KL(π ‖ π_ref)          ∇ KL(π ‖ π_ref)
        k2      ∇ KL(π ‖ π_ref)      ∇ E[k2]                  ∇ E[k2] − ∇ KL(π ‖ π_ref)
        k3      ∇ KL(π_ref ‖ π)      ∇ KL(π ‖ π_ref)          ∇ KL(π ‖ π_ref) − ∇ KL(π_ref ‖ π)

    So use k2 or weighted k3 in the loss, k1 in the reward; plain k3 in the loss is GRPO's. `weighted`
    multiplies each token's estimate by current/sampler, gradient included (DeepSeek-V3.2,
    arXiv:2512.02556), which also corrects for older samplers.
    """

    estimate: Estimate = "k3"
    place: Literal["loss", "reward"] = "loss"
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.weighted and self.place == "reward":
            raise ValueError(
                "weighted = true has no meaning in the reward, where the sampler is what is averaged over. "
                'Set place = "loss" or weighted = false.'
            )

    def in_loss(self, logprobs: Tensor, batch: Batch) -> Tensor:
        """Return the estimate for each token [row, time], with gradients."""
        estimated = ESTIMATES[self.estimate](logprobs, _reference(batch))
        return estimated * ratio(logprobs, batch.sampler_logprobs) if self.weighted else estimated

    def in_reward(self, batch: Batch) -> Tensor:
        """Return the anchor's estimate for each token [row, time], 0 outside the mask, no gradients."""
        assert batch.anchor_logprobs is not None, "annotate the batch with the anchor first"
        estimated = ESTIMATES[self.estimate](batch.anchor_logprobs, _reference(batch))
        return torch.where(batch.mask, estimated, 0.0)


def _reference(batch: Batch) -> Tensor:
    assert batch.reference_logprobs is not None, "annotate the batch with the reference first"
    return batch.reference_logprobs
