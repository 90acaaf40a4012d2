"""What an update did, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.protocols import Term


@dataclass(frozen=True, slots=True)
class Drift:
    """Sums over scored tokens of how far the current policy is from sampler and anchor.

    `apart` is the largest |sampler − current| log-probability, `kl` sums sampler − current, `surprise`
    sums −current.
    """

    apart: float = 0.0
    kl: float = 0.0
    surprise: float = 0.0

    @classmethod
    def of(cls, logprobs: Tensor, batch: Batch) -> Drift:
        """Measure a micro-batch's `logprobs` [row, time], no gradients kept."""
        mask = batch.mask
        if not bool(mask.any()):
            return cls()
        current = logprobs.detach()[mask].float()
        gap = batch.sampler_logprobs[mask] - current
        return cls(float(gap.abs().max()), float(gap.sum()), -float(current.sum()))

    def __add__(self, other: Drift) -> Drift:
        return Drift(max(self.apart, other.apart), self.kl + other.kl, self.surprise + other.surprise)


def num_silent(terms: Mapping[str, Term], logprobs: Tensor, batch: Batch) -> int:
    """Count the tokens that have an advantage but no gradient: clipped, masked, or too far off-policy.

    Asked of the loss itself, so each algorithm's own rule counts: of its component `policy`, or of all of
    them if none has that name. `logprobs` [row, time] is what the loss was made from.
    """
    chosen = [terms["policy"]] if "policy" in terms else list(terms.values())
    total = torch.stack([term.sum for term in chosen]).sum()
    wanted = batch.mask & (batch.advantages != 0) & (batch.row_weight[:, None] != 0)
    if not total.requires_grad:
        return int(wanted.sum())
    (gradient,) = torch.autograd.grad(total, logprobs, retain_graph=True, allow_unused=True)
    return int((wanted if gradient is None else wanted & (gradient == 0)).sum())


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """One call of `Policy.update`; losses, norm and drift are those of its last optimizer step.

    loss, components   the global loss and its named parts
    gradient_norm      before clipping
    learning_rate      of the last step
    entropy            mean of −log-probability over scored tokens (nats): an estimate from what was sampled
    clip_share         share of scored tokens with an advantage but without a gradient: see `num_silent`
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
    num_silent: int = 0
    gradient_norm: float = 0.0
    skipped: str = ""

    @property
    def loss(self) -> float:
        return sum(self.components.values())
