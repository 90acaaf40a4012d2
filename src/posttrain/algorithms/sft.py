"""SFT: supervised fine-tuning on demonstrations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from posttrain.algorithms.losses import over_rows
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs, Term
from posttrain.types import Group


@dataclass(frozen=True, slots=True)
class SFT:
    """Cross-entropy over the demonstrated tokens: L = −1/N Σ_i w_i Σ_t log π(y_it).

    N counts the scored tokens of the whole optimizer step, so every token weighs the same however the
    batch is split.
    """

    @property
    def needs(self) -> frozenset[Need]:
        """Ask for nothing."""
        return frozenset()

    def keeps(self, group: Group) -> bool:
        """Tell whether there is anything to learn from: at least one judged demonstration."""
        return len(group.judged) > 0

    def advantages(self, batch: Batch) -> Tensor:
        """Return 1 for every scored token: demonstrations are not compared."""
        return batch.mask.float()

    def loss(self, outputs: Outputs, batch: Batch) -> Mapping[str, Term]:
        """Return the negative log-likelihood, summed over tokens."""
        return {"policy": Term(-over_rows(batch.advantages * outputs.logprobs, batch).sum(), "tokens")}
