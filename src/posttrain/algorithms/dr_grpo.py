"""Dr. GRPO: GRPO without its biases by length and difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import centred
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import credited, has_signal
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import anchor_of, clipped_surrogate, over_rows, ratio
from posttrain.algorithms.penalties import needed, penalised, penalties
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
    limit. Clip-higher, c_t, w_i and the other settings are as in GRPO here.
    """

    max_tokens: Annotated[int, Ge(1)] = 64
    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.28
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
        """Return each row's (or turn's) reward above its group's mean, on all its scored tokens."""
        rewards = penalised(batch.rewards, batch, self.kl, self.divergence)
        return credited(centred, rewards, batch, self.turn_gamma)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective as rows' token sums over `max_tokens`, summed over rows."""
        anchor = anchor_of(outputs, batch)
        ratios = ratio(outputs.logprobs, anchor)
        surrogate = clipped_surrogate(ratios, batch.advantages, self.clip_low, self.clip_high)
        weights = self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap)
        components = {"policy": -weights * surrogate}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {
            name: Term(over_rows(values, batch).sum() / self.max_tokens, "rows")
            for name, values in components.items()
        }
