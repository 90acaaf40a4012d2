"""The settings of the integrity layer: how much it looks, and what each flag costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from posttrain.errors import ConfigError
from posttrain.types import QUARANTINE, Reward

Flag = Literal["coupled", "tampering", "opaque", "borrowed", "tampered", "security", "canary"]
"""coupled: a part of the answer serves listed tests only. tampering: it reaches for the interpreter that
judges it. opaque: it runs code that it hides. borrowed: it imports the function asked for. tampered and
security: the sandbox saw an attempt. canary: a task without solution was solved."""
FLAGS: tuple[Flag, ...] = get_args(Flag)
Response = Literal["zero", "penalty", "quarantine", "keep"]
"""What a flag does: the reward becomes 0, or the penalty, or 0 and the attempt is kept out of training for
review, or nothing but the flag."""


@dataclass(frozen=True, slots=True)
class Integrity:
    """How an answer is looked at, and what is done about what is found.

    `fresh`: mutated tests for each task and epoch (0: none). `confirm`: where the share of fresh tests is
    below this part of the hidden share, only the fresh share is earned. `chance`: whether what is no better
    than a constant or a memory of the visible tests earns nothing. `sigmas`: by how many standard deviations
    an answer that passes the visible tests must be better than that. `min_bits`: how much the tests that a
    part serves must tell apart before it counts as made for them. `max_removals`: parts that are taken away.
    """

    fresh: int = 16
    confirm: float = 0.5
    chance: Literal["zero", "keep"] = "zero"
    sigmas: float = 1.64
    min_bits: float = 8.0
    max_removals: int = 48
    penalty: float = -1.0
    coupled: Response = "zero"
    tampering: Response = "zero"
    opaque: Response = "zero"
    borrowed: Response = "zero"
    tampered: Response = "zero"
    security: Response = "zero"
    canary: Response = "quarantine"

    def __post_init__(self) -> None:
        """Raise ConfigError for a number that makes no sense."""
        for name, low, high in (
            ("fresh", 0, 256), ("confirm", 0, 1), ("sigmas", 0, 10), ("min_bits", 0, 1000),
            ("max_removals", 0, 1000), ("penalty", -1000, 0),
        ):  # fmt: skip
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{value} is not possible", key=name, hint=f"Set it to {low} … {high}.")


def answered(reward: Reward, flags: Sequence[Flag], parts: Mapping[str, float], how: Integrity) -> Reward:
    """Return a reward with flags and parts added and the response to each flag carried out.

    The harshest response holds; a value below what it gives stays.
    """
    kept = dict.fromkeys((*reward.flags, *flags))
    responses = [response_to(flag, how) for flag in kept]
    value = reward.value
    if any(response in ("zero", "quarantine") for response in responses):
        value = min(value, 0.0)
    if "penalty" in responses:
        value = min(value, how.penalty)
    if "quarantine" in responses:
        kept[QUARANTINE] = None
    by_turn = reward.by_turn if value == reward.value else tuple(min(0.0, each) for each in reward.by_turn)
    return Reward(value, {**reward.parts, **parts}, tuple(kept), by_turn)


def response_to(flag: str, how: Integrity) -> Response:
    """Return what is done about a flag; other flags than ours are kept as they are."""
    if flag not in FLAGS:
        return "keep"
    response: Response = getattr(how, flag)
    return response
