"""What stands between the sampler and the anchor: weights for it, and masks where it is too wide.

Apart from the clipped ratio current/anchor, which is the algorithm's own and carries the gradient; what
is here is detached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor

from posttrain.algorithms.losses import bounded_exp, num_scored
from posttrain.batch import Batch

Level = Literal["token", "sequence", "geometric"]
"""What one ratio is taken over: a token; the whole answer; its geometric mean over the answer's tokens."""


@dataclass(frozen=True, slots=True)
class Correction:
    """Weights and masks for tokens whose sampler was not the policy that is being updated.

        c = min(anchor/sampler, cap) · 1[mask_below ≤ anchor/sampler ≤ mask_above] · 1[not shifted]

    `level` is what the weight's ratio is taken over, `mask_level` the mask's; unset, the algorithm's own
    (token for most). A mask's bound of 0 is off; with `correction_cap = 0` the mask is plain rejection.
    `max_shift` drops a token whose probability has moved by more than this in its advantage's direction
    since it was sampled, (current − sampler) · sign A > max_shift: DPPO's trust region (Qi et al. 2026,
    arXiv:2602.04879, binary total variation), 0: off. What is dropped still counts in the denominator, so
    the others' weight does not grow.
    """

    level: Level | None = None
    mask_level: Level | None = None
    mask_below: Annotated[float, Ge(0)] = 0.0
    mask_above: Annotated[float, Ge(0)] = 0.0
    max_shift: Annotated[float, Ge(0), Le(1)] = 0.0

    def __post_init__(self) -> None:
        if 0 < self.mask_above < self.mask_below:
            raise ValueError(
                f"mask_above = {self.mask_above} is below mask_below = {self.mask_below}: every token would "
                "be dropped. Swap them."
            )

    def weights(
        self, logprobs: Tensor, anchor: Tensor, batch: Batch, cap: float, own: Level = "token"
    ) -> Tensor:
        """Return c [row, time] for the current `logprobs`; `cap` 0 leaves the ratio out, not the masks.

        `own` is the level of an algorithm that counts in other units than tokens.
        """
        weight = torch.ones_like(batch.sampler_logprobs)
        if cap > 0:
            weight = sampler_ratio(anchor, batch, self.level or own).clamp(max=cap)
        if self.mask_below > 0 or self.mask_above > 0:
            between = sampler_ratio(anchor, batch, self.mask_level or own)
            above = self.mask_above if self.mask_above > 0 else torch.inf
            weight = torch.where((between >= self.mask_below) & (between <= above), weight, 0.0)
        if self.max_shift > 0:
            moved = logprobs.detach().exp() - batch.sampler_logprobs.exp()
            weight = torch.where(moved * batch.advantages.sign() > self.max_shift, 0.0, weight)
        return weight


def sampler_ratio(anchor: Tensor, batch: Batch, level: Level) -> Tensor:
    """Return anchor/sampler [row, time], detached, over a token, the row, or the row's geometric mean."""
    gap = torch.where(batch.mask, anchor.detach() - batch.sampler_logprobs, 0.0)
    if level != "token":
        total = gap.sum(1, keepdim=True)
        gap = (total / num_scored(batch)[:, None] if level == "geometric" else total).expand_as(gap)
    return bounded_exp(gap)
