"""What every algorithm can add to its own objective: a KL to the reference, and an entropy bonus."""

from __future__ import annotations

from torch import Tensor

from posttrain.algorithms.kl import Divergence
from posttrain.batch import Batch
from posttrain.protocols import Need, Outputs


def needed(kl: float, divergence: Divergence, entropy: float) -> frozenset[Need]:
    """Name what the penalties read beside the current log-probabilities."""
    needs: set[Need] = {"entropy"} if entropy > 0 else set()
    if kl > 0:
        needs.add("reference")
        # The anchor, not the sampler: reference and anchor share their numerics, so equal weights give 0.
        needs |= {"anchor"} if divergence.place == "reward" else set()
    return frozenset(needs)


def penalised(rewards: Tensor, batch: Batch, kl: float, divergence: Divergence) -> Tensor:
    """Return rewards [row] less kl times their rows' summed divergence, if it is placed in the reward."""
    if kl == 0 or divergence.place != "reward":
        return rewards
    return rewards - kl * divergence.in_reward(batch).sum(1)


def penalties(
    outputs: Outputs, batch: Batch, kl: float, divergence: Divergence, entropy: float
) -> dict[str, Tensor]:
    """Return the loss's further components for each token [row, time], times their coefficients."""
    components = {}
    if kl > 0 and divergence.place == "loss":
        components["kl"] = kl * divergence.in_loss(outputs.logprobs, batch)
    if entropy > 0:
        assert outputs.entropy is not None, "ask for the entropy in `needs`"
        components["entropy"] = -entropy * outputs.entropy
    return components
