"""GSPO: group sequence policy optimisation, whose ratio belongs to the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import standardised
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import credited, has_signal
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import anchor_of, clipped_surrogate, num_scored, over_rows, sequence_ratio
from posttrain.algorithms.penalties import needed, penalised, penalties
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class GSPO:
    """Zheng et al. 2025 (arXiv:2507.18071), eq. 13: GSPO-token, which contains GSPO (eq. 5).

        J = 1/R Σ_i w_i 1/|y_i| Σ_t c_i min(s_it A_it, clip(s_it, 1 − clip_low, 1 + clip_high) A_it)
        s_it = sg[s_i] π(y_it)/sg[π(y_it)],   s_i = (π(y_i)/anchor(y_i))^(1/|y_i|)

    Where a row's tokens share one advantage, value and gradient are those of eq. 5; with `turn_gamma` they
    differ by turn and this is GSPO-token. The clipping range is the paper's: a mean over an answer's
    tokens moves far less than one token. c_i, the correction from sampler to anchor, takes the same
    geometric mean; w_i and the other settings are as in GRPO here. The paper has no KL.
    """

    clip_low: Annotated[float, Gt(0), Le(1)] = 3e-4
    clip_high: Annotated[float, Gt(0)] = 4e-4
    kl: Annotated[float, Ge(0)] = 0.0
    divergence: Divergence = field(default_factory=Divergence)
    entropy: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    correction: Correction = field(default_factory=Correction)
    turn_gamma: Annotated[float, Ge(0), Le(1)] | None = None

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for what the penalties read."""
        return needed(self.kl, self.divergence, self.entropy)

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return has_signal(group, self.turn_gamma)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's (or turn's) standing in its group, on all its scored tokens."""
        rewards = penalised(batch.rewards, batch, self.kl, self.divergence)
        return credited(standardised, rewards, batch, self.turn_gamma)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective as rows' token means, summed over rows."""
        anchor, length = anchor_of(outputs, batch), num_scored(batch)
        ratios = sequence_ratio(outputs.logprobs, anchor, batch)
        surrogate = clipped_surrogate(ratios, batch.advantages, self.clip_low, self.clip_high)
        weights = self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap, "geometric")
        components = {"policy": -weights * surrogate}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {
            name: Term((over_rows(values, batch) / length).sum(), "rows")
            for name, values in components.items()
        }
