"""Dr. GRPO: GRPO without its biases by length and difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import centred, over_tokens, varied
from posttrain.algorithms.losses import (
    anchor_of,
    clipped_surrogate,
    k3,
    over_rows,
    ratio,
    truncated_correction,
)
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class DrGRPO:
    """Liu et al. 2025 (arXiv:2503.20783), eq. 3 and the constant of its listing 1.

        J = 1/R Σ_i w_i 1/max_tokens Σ_t c_t min(ρ_t A_i, clip(ρ_t, 1 − clip_low, 1 + clip_high) A_i)
        A_i = r_i − mean over the group

    A token weighs 1/max_tokens whatever its row's length, so long wrong answers are not favoured; no
    division by the deviation, so easy and hard tasks are not either. Set `max_tokens` to the sampling
    limit. Clip-higher, c_t, w_i and kl · k3 are as in GRPO here.
    """

    max_tokens: Annotated[int, Ge(1)] = 64
    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.28
    kl: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for the reference's log-probabilities if KL is penalised."""
        return frozenset({"reference"}) if self.kl > 0 else frozenset()

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return varied(group)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's reward above its group's mean, on all its scored tokens."""
        return over_tokens(centred(batch.rewards, batch.group), batch.mask)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective as rows' token sums over `max_tokens`, summed over rows."""
        anchor = anchor_of(outputs, batch)
        surrogate = clipped_surrogate(
            ratio(outputs.logprobs, anchor), batch.advantages, self.clip_low, self.clip_high
        )
        weight = truncated_correction(anchor, batch.sampler_logprobs, self.correction_cap)
        terms = {"policy": Term(-over_rows(weight * surrogate, batch).sum() / self.max_tokens, "rows")}
        if self.kl > 0:
            assert batch.reference_logprobs is not None, "annotate the batch with the reference first"
            divergence = over_rows(k3(outputs.logprobs, batch.reference_logprobs), batch).sum()
            terms["kl"] = Term(self.kl * divergence / self.max_tokens, "rows")
        return terms
