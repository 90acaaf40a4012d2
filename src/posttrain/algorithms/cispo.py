"""CISPO: the importance weight is clipped, never the token's gradient."""

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
from posttrain.algorithms.losses import anchor_of, over_rows, ratio
from posttrain.algorithms.penalties import needed, penalised, penalties
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class CISPO:
    """MiniMax 2025 (arXiv:2506.13585), eq. 4 and 5.

        J = 1/N Σ_i w_i Σ_t c_t sg[clip(ρ_t, 1 − clip_low, 1 + clip_high)] A_i log π(y_it)
        A_i = (r_i − mean) / std over the group

    REINFORCE with bounded importance weights: rare tokens that PPO's clipping would silence keep their
    gradient. N counts the scored tokens of the whole optimizer step (the paper's, those of each group).
    As in the paper there is no lower bound (`clip_low = 1`); it publishes no upper one, and the default
    cuts weights at 5. c_t, w_i and the other settings are as in GRPO here; `correction.max_shift`
    takes the place of the paper's mask (eq. 6). The paper has no KL.
    """

    clip_low: Annotated[float, Gt(0), Le(1)] = 1.0
    clip_high: Annotated[float, Gt(0)] = 4.0
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
        """Return the negated objective, summed over tokens."""
        anchor = anchor_of(outputs, batch)
        clipped = ratio(outputs.logprobs, anchor).detach().clamp(1.0 - self.clip_low, 1.0 + self.clip_high)
        weights = clipped * self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap)
        components = {"policy": -weights * batch.advantages * outputs.logprobs}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {name: Term(over_rows(values, batch).sum(), "tokens") for name, values in components.items()}
