"""REINFORCE++: advantages normalised over the whole batch, the KL in each token's reward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt, Le
from torch import Tensor

from posttrain.algorithms.advantages import centred, over_batch, plain
from posttrain.algorithms.corrections import Correction
from posttrain.algorithms.credit import credited, has_signal, to_go
from posttrain.algorithms.kl import Divergence
from posttrain.algorithms.losses import anchor_of, clipped_surrogate, over_rows, ratio
from posttrain.algorithms.penalties import needed, penalties
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class ReinforcePP:
    """Hu et al. 2025 (arXiv:2501.03262): PPO's clipping, no critic, global advantage normalisation.

        J = 1/N Σ_i w_i Σ_t c_t min(ρ_t A_it, clip(ρ_t, 1 − clip_low, 1 + clip_high) A_it)
        A_it = (G_it − mean) / std over the batch's tokens,   G_it = r_i − kl Σ_{s ≥ t} log(anchor_s/π_ref,s)

    N counts the scored tokens of the whole optimizer step. Groups are not compared, so attempts at a task
    may be single and every judged group trains. `baseline = true` is the paper's variant for groups:
    G_it starts from r_i − mean over the group, and groups without a difference are dropped; its KL is
    `divergence = { estimate = "k2", place = "loss" }`. Different here: a batch whose returns are all
    equal gives exactly 0. c_t, w_i and the other settings are as in GRPO here.
    """

    baseline: bool = False
    clip_low: Annotated[float, Gt(0), Le(1)] = 0.2
    clip_high: Annotated[float, Gt(0)] = 0.2
    kl: Annotated[float, Ge(0)] = 0.0
    divergence: Divergence = field(default_factory=lambda: Divergence("k1", "reward"))
    entropy: Annotated[float, Ge(0)] = 0.0
    correction_cap: Annotated[float, Ge(0)] = 2.0
    correction: Correction = field(default_factory=Correction)
    turn_gamma: Annotated[float, Ge(0), Le(1)] | None = None

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for what the penalties read."""
        return needed(self.kl, self.divergence, self.entropy)

    def keeps(self, group: Group) -> bool:
        """Tell whether there is a judged attempt or, with a baseline, a difference between them."""
        return has_signal(group, self.turn_gamma) if self.baseline else len(group.judged) > 0

    def advantages(self, batch: Batch) -> Tensor:
        """Return each token's return to go, normalised over the batch's scored tokens."""
        standing = centred if self.baseline else plain
        returns = credited(standing, batch.rewards, batch, self.turn_gamma)
        if self.kl > 0 and self.divergence.place == "reward":
            returns = returns - self.kl * to_go(self.divergence.in_reward(batch))
        return over_batch(returns, batch.mask)

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negated objective, summed over tokens."""
        anchor = anchor_of(outputs, batch)
        ratios = ratio(outputs.logprobs, anchor)
        surrogate = clipped_surrogate(ratios, batch.advantages, self.clip_low, self.clip_high)
        weights = self.correction.weights(outputs.logprobs, anchor, batch, self.correction_cap)
        components = {"policy": -weights * surrogate}
        components |= penalties(outputs, batch, self.kl, self.divergence, self.entropy)
        return {name: Term(over_rows(values, batch).sum(), "tokens") for name, values in components.items()}
