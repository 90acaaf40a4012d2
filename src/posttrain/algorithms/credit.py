"""Which tokens earn what: outcomes for whole rows, process rewards for turns, penalties for length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Gt
from torch import Tensor

from posttrain.algorithms.advantages import over_tokens, varied
from posttrain.batch import Batch
from posttrain.types import Group, Reward

Standing = Callable[[Tensor, Tensor], Tensor]
"""(values [row], group [row]) → how much better than its group each row did [row]."""


def credited(standing: Standing, rewards: Tensor, batch: Batch, gamma: float | None) -> Tensor:
    """Return advantages [row, time]: each row's standing or, with `gamma`, that of each turn's return.

    A turn is compared with the group's returns at the same turn. A row that has ended before counts there
    with its outcome, so with gamma = 1 and no process rewards this is the row's standing at every token.
    """
    if gamma is None:
        return over_tokens(standing(rewards, batch.group), batch.mask)
    columns = returns_to_go(rewards.double(), batch, gamma).unbind(1)
    turns = torch.stack([standing(column, batch.group) for column in columns], 1).to(rewards.dtype)
    return torch.where(batch.mask, turns.gather(1, batch.turn.clamp(min=0)), 0.0)


def returns_to_go(rewards: Tensor, batch: Batch, gamma: float) -> Tensor:
    """Return what each turn still earns [row, turn]; past a row's last turn, its outcome.

        G_j = p_j + γ G_{j+1},   G_last = p_last + r

    p_j is the turn's process reward and r the row's outcome. γ stands on the last token of each turn:
    within a turn nothing is discounted, however long it is.
    """
    num_turns = batch.turn.amax(1) + 1
    width = max(1, int(num_turns.max()))
    own = torch.zeros(batch.num_rows, width, dtype=rewards.dtype, device=rewards.device)
    own.scatter_add_(1, batch.turn.clamp(min=0), batch.turn_rewards.to(rewards.dtype))
    columns, ahead = [], rewards
    for turn in reversed(range(width)):
        following = torch.where(turn + 1 < num_turns, gamma * ahead, rewards)
        ahead = torch.where(turn < num_turns, own[:, turn] + following, rewards)
        columns.append(ahead)
    return torch.stack(columns[::-1], 1)


def has_signal(group: Group, gamma: float | None) -> bool:
    """Tell whether attempts differ in what they earned or, with `gamma`, in what their turns return."""
    if gamma is None or varied(group):
        return varied(group)
    judged = [(sum(turn.by_policy for turn in t.turns), reward) for t, reward in group.judged]
    width = max((count for count, _ in judged), default=0)
    return len({_returns(reward, count, width, gamma) for count, reward in judged}) > 1


def _returns(reward: Reward, num_turns: int, width: int, gamma: float) -> tuple[float, ...]:
    """Return `returns_to_go` of one row, in plain numbers."""
    returns = [reward.value] * (width - num_turns)
    own = reward.by_turn or (0.0,) * num_turns
    for turn in reversed(range(num_turns)):
        following = reward.value if turn == num_turns - 1 else gamma * returns[-1]
        returns.append(own[turn] + following)
    return tuple(returns)


def to_go(values: Tensor) -> Tensor:
    """Return Σ_{s ≥ t} values_s along time: what each token and its successors add up to [row, time]."""
    return values.flip(1).cumsum(1).flip(1)


@dataclass(frozen=True, slots=True)
class Overlong:
    """DAPO's soft punishment of long answers (arXiv:2503.14476, eq. 13):

        0 up to max_tokens − buffer, then falling in a straight line to −1 at max_tokens

    `max_tokens` is L_max, the sampling limit, and `buffer` L_cache. All tokens of the policy count.
    """

    max_tokens: Annotated[int, Gt(0)]
    buffer: Annotated[int, Gt(0)]

    def __post_init__(self) -> None:
        if self.buffer > self.max_tokens:
            raise ValueError(
                f"buffer = {self.buffer} is longer than max_tokens = {self.max_tokens}. "
                "It is the last part of them: choose a smaller one, such as a fifth."
            )

    def penalty(self, batch: Batch) -> Tensor:
        """Return each row's punishment [row], from 0 to −1."""
        over = batch.mask.sum(1) - (self.max_tokens - self.buffer)
        return -(over.to(batch.rewards.dtype) / self.buffer).clamp(0.0, 1.0)
