"""GRPO: group relative policy optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import centred, standardised
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import credited, has_signal
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import anchor_of, clipped_surrogate, num_scored, over_rows, ratio
from posttrain.algorithms.penalties import needed, penalised, penalties
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class GRPO:
    """Shao et al. 2024 (arXiv:2402.03300), eq. 3 with outcome supervision.

        J = 1/R Σ_i w_i 1/|o_i| Σ_t c_t min(ρ_t A_i, clip(ρ_t, 1 − clip_low, 1 + clip_high) A_i) − kl · k3
        A_i = (r_i − mean) / std over the group

    R counts rows over the whole optimizer step. Different here: clip-higher (arXiv:2503.14476); c_t, the
    correction from sampler to anchor (`correction_cap`, 0: off; see `Correction`); w_i, the row's weight;
    equal rewards give advantages of exactly 0 instead of a small number over an added constant.
    `turn_gamma` gives each turn its own return; `divergence` and `entropy` set the penalties.
    """

    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.28
    kl: Annotated[float, Ge(0)] = 0.0
    divergence: Divergence = field(default_factory=Divergence)
    entropy: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    correction: Correction = field(default_factory=Correction)
    turn_gamma: Annotated[float, Ge(0), Le(1)] | None = None
    normalise: bool = True

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for what the penalties read."""
        return needed(self.kl, self.divergence, self.entropy)

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return has_signal(group, self.turn_gamma)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's (or turn's) standing in its group, on all its scored tokens."""
        standing = standardised if self.normalise else centred
        rewards = penalised(batch.rewards, batch, self.kl, self.divergence)
        return credited(standing, rewards, batch, self.turn_gamma)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective as rows' token means, summed over rows."""
        anchor, length = anchor_of(outputs, batch), num_scored(batch)
        ratios = ratio(outputs.logprobs, anchor)
        surrogate = clipped_surrogate(ratios, batch.advantages, self.clip_low, self.clip_high)
        weights = self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap)
        components = {"policy": -weights * surrogate}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {
            name: Term((over_rows(values, batch) / length).sum(), "rows")
            for name, values in components.items()
        }
