"""Ask a domain for a verdict: a deadline, retries, and no failure that is mistaken for a wrong answer."""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass

from posttrain.protocols import Sandbox
from posttrain.runtime.inline import Aside, DeadlineExceeded
from posttrain.types import Domain, Reward, Trajectory, Unjudged, Verdict


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
        reward = await aside.run(lambda: domain.verify(trajectory, sandbox, {}), seconds)
    except DeadlineExceeded as late:
        return Unjudged("deadline", f"{domain.name}.verify: {late}")
    except Exception:  # a user's verifier may raise anything, and none of it is the policy's fault
        return Unjudged("error", traceback.format_exc(limit=-5))
    return _checked(domain, trajectory, reward)


def _checked(domain: Domain, trajectory: Trajectory, reward: object) -> Verdict:
    if not isinstance(reward, Reward):
        found = type(reward).__name__
        return Unjudged("invalid", f"{domain.name}.verify returned {found}, expected posttrain.Reward")
    numbers = [reward.value, *reward.parts.values(), *reward.by_turn]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        return Unjudged("invalid", f"{domain.name}.verify returned a value that is not finite: {reward}")
    turns = sum(turn.by_policy for turn in trajectory.turns)
    if reward.by_turn and len(reward.by_turn) != turns:
        return Unjudged("invalid", f"{domain.name}: {len(reward.by_turn)} by_turn rewards for {turns} turns")
    return reward
