"""What an update did, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from posttrain.batch import Batch

CLIP_MARGIN = 0.2
"""A ratio further than this from 1 is counted as far; it matches the usual clipping range."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Sums over scored tokens of how far the current policy is from sampler and anchor.

    `apart` is the largest |sampler − current| log-probability, `kl` sums sampler − current, `surprise`
    sums −current, `far` counts ratios current/anchor outside 1 ± CLIP_MARGIN.
    """

    apart: float = 0.0
    kl: float = 0.0
    surprise: float = 0.0
    far: float = 0.0

    @classmethod
    def of(cls, logprobs: Tensor, batch: Batch) -> Drift:
        """Measure a micro-batch's `logprobs` [row, time], no gradients kept."""
        mask = batch.mask
        if not bool(mask.any()):
            return cls()
        current = logprobs.detach()[mask].float()
        gap = batch.sampler_logprobs[mask] - current
        anchor = current if batch.anchor_logprobs is None else batch.anchor_logprobs[mask]
        far = ((current - anchor).clamp(-20, 20).exp() - 1).abs() > CLIP_MARGIN
        return cls(float(gap.abs().max()), float(gap.sum()), -float(current.sum()), float(far.sum()))

    def __add__(self, other: Drift) -> Drift:
        return Drift(
            max(self.apart, other.apart),
            self.kl + other.kl,
            self.surprise + other.surprise,
            self.far + other.far,
        )


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """One call of `Policy.update`; losses, norm and drift are those of its last optimizer step.

    loss, components   the global loss and its named parts
    gradient_norm      before clipping
    learning_rate      of the last step
    entropy            estimated by the mean of −log-probability over scored tokens (nats)
    clip_share         share of tokens whose ratio to the anchor left 1 ± CLIP_MARGIN
    sampler_kl         mean of sampler − current log-probabilities (the k1 estimate of KL)
    mismatch           largest |sampler − trainer| log-probability in the first pass, before any step
    num_steps          optimizer steps done; `skipped` says why one was not, '' otherwise
    """

    loss: float
    components: Mapping[str, float]
    gradient_norm: float
    learning_rate: float
    entropy: float
    clip_share: float
    sampler_kl: float
    mismatch: float
    num_tokens: int
    num_rows: int
    num_micro_batches: int
    num_steps: int
    seconds: float
    skipped: str = ""


@dataclass(slots=True)
class Pass:
    """What one pass over a batch adds up to."""

    components: dict[str, float] = field(default_factory=dict)
    drift: Drift = field(default_factory=Drift)
    gradient_norm: float = 0.0
    skipped: str = ""

    @property
    def loss(self) -> float:
        return sum(self.components.values())
