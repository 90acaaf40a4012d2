"""Ask a domain for a verdict: a deadline, retries, and no failure that is mistaken for a wrong answer."""

from __future__ import annotations

import asyncio
import copy
import math
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final

from posttrain.errors import RunFailed
from posttrain.protocols import Sandbox
from posttrain.rollouts.boxes import Boxes, SharedSandbox
from posttrain.runtime.inline import Aside, Blocked, DeadlineExceeded
from posttrain.runtime.stopwatch import Stopwatch
from posttrain.types import Domain, Group, Reward, Trajectory, Unjudged, Verdict

T = TypeVar("T")
MAX_VALUE = 1e30
"""Rewards beyond this would overflow the float32 they train with."""
MAX_DETAIL = 4_000
"""Characters of an error that are kept: a verifier may raise texts of any size."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a domain's functions may take, and how often a missing verdict is asked for again.

    At most `in_flight` verdicts of one domain are under way at once. A domain that has missed `misses`
    deadlines in a step, and more than a tenth of them all, is not asked again before the next step.
    """

    verify_seconds: float = 30.0
    respond_seconds: float = 30.0
    retries: int = 1
    in_flight: int = 16
    misses: int = 3


@final
class Quotas:
    """What one step asks of domains' functions, and how much of it each may take; lives for one step."""

    def __init__(self, sandbox: Sandbox, aside: Aside, deadlines: Deadlines, boxes: Boxes) -> None:
        self._sandbox, self._aside, self.deadlines, self._boxes = sandbox, aside, deadlines, boxes
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._asked: Counter[str] = Counter()
        self._missed: Counter[str] = Counter()
        self._under_way: dict[str, dict[asyncio.Future[Any], Stopwatch]] = {}

    async def ask(
        self, what: str, domain: Domain, work: Callable[[SharedSandbox], Awaitable[T]], seconds: float
    ) -> T:
        """Return what `work` returns, given the domain's share of the sandbox; `what` names the function.

        Raises DeadlineExceeded, GivenUp where too many deadlines were missed before, or what it raises.
        """
        name, clock = f"{domain.name}.{what}", Stopwatch(seconds)
        shares: list[SharedSandbox] = []

        async def begun() -> T:
            # Asked anew after a neighbour has blocked the thread: what the first try held is free again.
            self._leave(shares)
            self._check(name)
            shares.append(SharedSandbox(self._sandbox, self._boxes, domain.name, clock))
            return await work(shares[-1])

        async with self._slots.setdefault(name, asyncio.Semaphore(self.deadlines.in_flight)):
            self._check(name)
            self._asked[name] += 1
            try:
                return await self._run(name, begun, clock)
            except DeadlineExceeded:
                self._missed[name] += 1
                if self._given_up(name):
                    self._withdraw(name)
                raise
            finally:
                self._leave(shares)

    async def _run(self, name: str, begun: Callable[[], Awaitable[T]], clock: Stopwatch) -> T:
        running = asyncio.ensure_future(self._aside.run(begun, clock, lane=name))
        under_way = self._under_way.setdefault(name, {})
        under_way[running] = clock
        try:
            return await running
        except asyncio.CancelledError:
            if running in under_way:
                raise
            self._check(name)  # it was withdrawn
            raise AssertionError("withdrawn without a reason") from None
        finally:
            under_way.pop(running, None)

    def _withdraw(self, name: str) -> None:
        """End the calls that still wait for a box: each would take the time of those before it."""
        under_way = self._under_way[name]
        for running in [running for running, clock in under_way.items() if clock.left() == math.inf]:
            del under_way[running]
            running.cancel()

    def _given_up(self, name: str) -> bool:
        missed = self._missed[name]
        return missed >= self.deadlines.misses and 10 * missed > self._asked[name]

    def _check(self, name: str) -> None:
        if self._given_up(name):
            missed, asked = self._missed[name], self._asked[name]
            raise GivenUp(f"not asked: {missed} of {asked} calls have missed their deadline in this step")

    @staticmethod
    def _leave(shares: list[SharedSandbox]) -> None:
        while shares:
            shares.pop().leave()


class GivenUp(Exception):
    """A domain has missed so many deadlines that it is not asked again in this step."""


async def judge(domain: Domain, trajectory: Trajectory, quotas: Quotas) -> Verdict:
    """Return the domain's reward, or Unjudged after the last retry; the attempt is never resampled."""
    verdict: Verdict = Unjudged("deadline", "never asked")
    for _ in range(quotas.deadlines.retries + 1):
        try:
            verdict = await _once(domain, trajectory, quotas)
        except (Blocked, GivenUp) as why:
            # Asking again would cost the domain's other verdicts as much once more.
            return Unjudged("deadline", f"{domain.name}.verify: {why}")
        if isinstance(verdict, Reward):
            break
    return verdict


async def _once(domain: Domain, trajectory: Trajectory, quotas: Quotas) -> Verdict:
    try:
        # A copy, so that nothing a verifier does to it can change the record.
        seen = copy.deepcopy(trajectory)
        seconds = quotas.deadlines.verify_seconds
        reward = await quotas.ask("verify", domain, lambda boxes: domain.verify(seen, boxes, {}), seconds)
    except (Blocked, GivenUp):
        raise
    except DeadlineExceeded as late:
        return Unjudged("deadline", f"{domain.name}.verify: {late}")
    except RunFailed as failure:  # the sandbox had no verdict
        return Unjudged("infra", f"{domain.name}.verify: {failure}"[:MAX_DETAIL])
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


def trainable(group: Group) -> Group:
    """Return the group without the attempts that are set aside for review."""
    pairs = zip(group.trajectories, group.verdicts, strict=True)
    kept = [(t, v) for t, v in pairs if not (isinstance(v, Reward) and v.is_quarantined)]
    return replace(group, trajectories=tuple(t for t, _ in kept), verdicts=tuple(v for _, v in kept))


def enough_judged(group: Group) -> bool:
    """Tell whether a verdict is there for at least max(2, half) of the attempts (all, if fewer)."""
    wanted = max(1, min(len(group.trajectories), max(2, len(group.trajectories) / 2)))
    return len(group.judged) >= wanted
