"""RLOO: REINFORCE on whole answers with a leave-one-out baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le
from torch import Tensor

from posttrain.algorithms.advantages import leave_one_out
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import credited, has_signal
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import over_rows
from posttrain.algorithms.penalties import needed, penalised, penalties
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
    updates on one batch and the sampler's numerics honest: no ratio is clipped, so it reaches from the
    sampler to the current policy. The paper's KL is `divergence = { estimate = "k1", place = "reward" }`.
    """

    kl: Annotated[float, Ge(0)] = 0.0
    divergence: Divergence = field(default_factory=Divergence)
    entropy: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    correction: Correction = field(default_factory=Correction)
    turn_gamma: Annotated[float, Ge(0), Le(1)] | None = None
    denominator: Denominator = "tokens"

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for what the penalties read."""
        return needed(self.kl, self.divergence, self.entropy)

    def keeps(self, group: Group) -> bool:
        """Tell whether rewards differ within the group: otherwise every advantage is 0."""
        return has_signal(group, self.turn_gamma)

    def advantages(self, batch: Batch) -> Tensor:
        """Return each row's (or turn's) reward above its peers' mean, on all its scored tokens."""
        rewards = penalised(batch.rewards, batch, self.kl, self.divergence)
        return credited(leave_one_out, rewards, batch, self.turn_gamma)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return −c_i A_i log π(y_i), summed over rows."""
        current = outputs.logprobs.detach()
        weights = self.correction.weights(current, current, batch, self.correction_cap, "sequence")
        components = {"policy": -weights * batch.advantages * outputs.logprobs}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {
            name: Term(over_rows(values, batch).sum(), self.denominator)
            for name, values in components.items()
        }
