"""Ask a domain for a verdict: a deadline, retries, and no failure that is mistaken for a wrong answer."""

from __future__ import annotations

import copy
import traceback
from dataclasses import dataclass

from posttrain.protocols import Sandbox
from posttrain.runtime.inline import Aside, DeadlineExceeded
from posttrain.types import Domain, Group, Reward, Trajectory, Unjudged, Verdict

MAX_VALUE = 1e30
"""Rewards beyond this would overflow the float32 they train with."""
MAX_DETAIL = 4_000
"""Characters of an error that are kept: a verifier may raise texts of any size."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a domain's functions may take, and how often a missing verdict is asked for again."""

    verify_seconds: float = 30.0
    respond_seconds: float = 30.0
    retries: int = 1


async def judge(
    domain: Domain, trajectory: Trajectory, sandbox: Sandbox, aside: Aside, deadlines: Deadlines
) -> Verdict:
    """Return the domain's reward, or Unjudged after the last retry; the attempt is never resampled."""
    verdict: Verdict = Unjudged("deadline", "never asked")
    for _ in range(deadlines.retries + 1):
        verdict = await _once(domain, trajectory, sandbox, aside, deadlines.verify_seconds)
        if isinstance(verdict, Reward):
            break
    return verdict


async def _once(
    domain: Domain, trajectory: Trajectory, sandbox: Sandbox, aside: Aside, seconds: float
) -> Verdict:
    try:
        # A copy, so that nothing a verifier does to it can change the record.
        seen = copy.deepcopy(trajectory)
        reward = await aside.run(lambda: domain.verify(seen, sandbox, {}), seconds)
    except DeadlineExceeded as late:
        return Unjudged("deadline", f"{domain.name}.verify: {late}")
    except Exception:  # a user's verifier may raise anything, and none of it is the policy's fault
        return Unjudged("error", traceback.format_exc(limit=-5)[-MAX_DETAIL:])
    try:
        return _checked(domain, trajectory, reward)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        return Unjudged("invalid", f"{domain.name}.verify returned a malformed Reward: {error}"[:MAX_DETAIL])


def _checked(domain: Domain, trajectory: Trajectory, reward: object) -> Verdict:
    if not isinstance(reward, Reward):
        found = type(reward).__name__
        return Unjudged("invalid", f"{domain.name}.verify returned {found}, expected posttrain.Reward")
    plain = Reward(
        float(reward.value),
        {str(name): float(part) for name, part in reward.parts.items()},
        tuple(str(flag) for flag in reward.flags),
        tuple(float(value) for value in reward.by_turn),
    )
    numbers = [plain.value, *plain.parts.values(), *plain.by_turn]
    if not all(abs(number) <= MAX_VALUE for number in numbers):
        return Unjudged(
            "invalid", f"{domain.name}.verify returned a number that is not finite: {numbers[:4]}"
        )
    turns = sum(turn.by_policy for turn in trajectory.turns)
    if plain.by_turn and len(plain.by_turn) != turns:
        return Unjudged("invalid", f"{domain.name}: {len(plain.by_turn)} by_turn rewards for {turns} turns")
    return plain


def enough_judged(group: Group) -> bool:
    """Tell whether a verdict is there for at least max(2, half) of the attempts (all, if fewer)."""
    wanted = min(len(group.trajectories), max(2, len(group.trajectories) / 2))
    return len(group.judged) >= wanted
