"""GRPO: group relative policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import centred, over_tokens, standardised, varied
from posttrain.algorithms.losses import (
    anchor_of,
    clipped_surrogate,
    k3,
    num_scored,
    over_rows,
    ratio,
    truncated_correction,
)
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class GRPO:
    """Shao et al. 2024 (arXiv:2402.03300), eq. 3 with outcome supervision.

        J = 1/R Σ_i w_i 1/|o_i| Σ_t c_t min(ρ_t A_i, clip(ρ_t, 1 − clip_low, 1 + clip_high) A_i) − kl · k3
        A_i = (r_i − mean) / std over the group

    R counts rows over the whole optimizer step. Different here: clip-higher (arXiv:2503.14476); c_t, the
    truncated correction from sampler to anchor (`correction_cap`, 0: off); w_i, the row's weight; equal
    rewards give advantages of exactly 0 instead of a small number over an added constant.
    """

    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.28
    kl: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    normalise: bool = True

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for the reference's log-probabilities if KL is penalised."""
        return frozenset({"reference"}) if self.kl > 0 else frozenset()

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return varied(group)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's standing in its group, on all its scored tokens."""
        standing = standardised if self.normalise else centred
        return over_tokens(standing(batch.rewards, batch.group), batch.mask)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective as rows' token means, summed over rows."""
        anchor, length = anchor_of(outputs, batch), num_scored(batch)
        surrogate = clipped_surrogate(
            ratio(outputs.logprobs, anchor), batch.advantages, self.clip_low, self.clip_high
        )
        weight = truncated_correction(anchor, batch.sampler_logprobs, self.correction_cap)
        terms = {"policy": Term(-(over_rows(weight * surrogate, batch) / length).sum(), "rows")}
        if self.kl > 0:
            assert batch.reference_logprobs is not None, "annotate the batch with the reference first"
            divergence = over_rows(k3(outputs.logprobs, batch.reference_logprobs), batch) / length
            terms["kl"] = Term(self.kl * divergence.sum(), "rows")
        return terms
