"""RLOO: REINFORCE on whole answers with a leave-one-out baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from posttrain.algorithms.advantages import leave_one_out, over_tokens, varied
from posttrain.algorithms.losses import k3, over_rows, truncated_correction
from posttrain.batch import Batch
from posttrain.protocols import Denominator, Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class RLOO:
    """Ahmadian et al. 2024 (arXiv:2402.14740), the leave-one-out estimator of section 2.

        ∇J ∝ Σ_i w_i c_i A_i ∇ Σ_t log π(y_it),   A_i = r_i − mean of the group's other rewards

    The whole answer is one action, so every token of it counts in full. The paper's mean over rows is
    `denominator = "rows"`; the default divides by the batch's scored tokens instead, one factor for the
    whole step: the same direction, at a size that does not grow with the answers' length.
    c_i = min(π(y_i)/sampler(y_i), correction_cap) over the whole answer, detached (0: off), keeps further
    updates on one batch and the sampler's numerics honest. The KL is k3 in the loss, not in the reward.
    """

    kl: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    denominator: Denominator = "tokens"

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for the reference's log-probabilities if KL is penalised."""
        return frozenset({"reference"}) if self.kl > 0 else frozenset()

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return varied(group)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's reward above its peers' mean, on all its scored tokens."""
        return over_tokens(leave_one_out(batch.rewards, batch.group), batch.mask)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return −c_i A_i log π(y_i), summed over rows."""
        answers, sampled = (
            torch.where(batch.mask, logprobs, 0.0).sum(1)
            for logprobs in (outputs.logprobs.detach(), batch.sampler_logprobs)
        )
        weight = truncated_correction(answers, sampled, self.correction_cap)
        scores = over_rows(batch.advantages * outputs.logprobs, batch)
        terms = {"policy": Term(-(weight * scores).sum(), self.denominator)}
        if self.kl > 0:
            assert batch.reference_logprobs is not None, "annotate the batch with the reference first"
            divergence = over_rows(k3(outputs.logprobs, batch.reference_logprobs), batch).sum()
            terms["kl"] = Term(self.kl * divergence, self.denominator)
        return terms
