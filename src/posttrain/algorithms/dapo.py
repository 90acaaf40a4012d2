"""DAPO: decoupled clipping, dynamic sampling, and every token of the step weighing the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import standardised
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import Overlong, credited, has_signal
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import anchor_of, clipped_surrogate, over_rows, ratio
from posttrain.algorithms.penalties import needed, penalised, penalties
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class DAPO:
    """Yu et al. 2025 (arXiv:2503.14476), eq. 8 to 13.

        J = 1/N Σ_i w_i Σ_t c_t min(ρ_t A_i, clip(ρ_t, 1 − clip_low, 1 + clip_high) A_i)
        A_i = (r_i + overlong_i − mean) / std over the group

    N counts the scored tokens of the whole optimizer step (the paper's, those of each group): a long
    answer weighs more than a short one. `overlong` shapes the advantage alone, from lengths: recorded
    rewards, success and `keeps` see the outcome. Dynamic sampling (eq. 11) is `keeps` with
    `run.max_refills`. Set `overlong = { max_tokens = 64, buffer = 16 }` to the sampling limit; off by
    default. c_t, w_i and the other settings are as in GRPO here; the paper has no KL.
    """

    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.28
    overlong: Overlong | None = None
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
        """Tell whether outcomes differ within the group, whatever the answers' lengths: eq. 11."""
        return has_signal(group, self.turn_gamma)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's (or turn's) standing in its group, its length punished."""
        shaped = batch.rewards if self.overlong is None else batch.rewards + self.overlong.penalty(batch)
        rewards = penalised(shaped, batch, self.kl, self.divergence)
        return credited(standardised, rewards, batch, self.turn_gamma)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective, summed over tokens."""
        anchor = anchor_of(outputs, batch)
        ratios = ratio(outputs.logprobs, anchor)
        surrogate = clipped_surrogate(ratios, batch.advantages, self.clip_low, self.clip_high)
        weights = self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap)
        components = {"policy": -weights * surrogate}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {name: Term(over_rows(values, batch).sum(), "tokens") for name, values in components.items()}
