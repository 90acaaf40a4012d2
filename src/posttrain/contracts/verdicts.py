"""Ask a verifier as a run would, and watch: what it gives, what it raises, how long the loop stood still."""

from __future__ import annotations

import asyncio
import copy
import math
import time
from dataclasses import dataclass

from posttrain.contracts.outcome import Rules
from posttrain.protocols import Sandbox
from posttrain.runtime.inline import Aside, DeadlineExceeded
from posttrain.types import Message, Reward, Task, Trajectory, Turn, VerifyFunction

BEAT_SECONDS = 0.01
BLOCK_SECONDS = 0.5
"""How long a verifier may keep the event loop from running: all other verdicts wait as long."""
TRIES = 3
"""A loop that stood still is looked at again, since a busy machine can have been the reason."""
VERDICTS = "verdicts"


@dataclass(frozen=True, slots=True)
class Seen:
    """One verdict: the reward, or what was raised or malformed; for how long the loop stood still."""

    reward: Reward | None
    raised: str
    malformed: str
    late: bool
    seconds: float
    blocked_seconds: float

    @property
    def holds_up(self) -> bool:
        """Tell whether it kept others waiting, so that asking on would take very long."""
        return self.late or self.blocked_seconds > BLOCK_SECONDS


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask `verify` for verdicts beside the loop, each within `deadline_seconds`."""

    verify: VerifyFunction
    sandbox: Sandbox
    aside: Aside
    deadline_seconds: float

    async def __call__(self, trajectory: Trajectory) -> Seen:
        """Return what the verifier made of a copy of this attempt, the calmest of up to three tries."""
        seen = await self._once(trajectory)
        for _ in range(TRIES - 1):
            if seen.late or seen.blocked_seconds <= BLOCK_SECONDS:
                break
            again = await self._once(trajectory)
            seen = again if again.blocked_seconds < seen.blocked_seconds else seen
        return seen

    async def _once(self, trajectory: Trajectory) -> Seen:
        attempt, pulse, started = copy.deepcopy(trajectory), _Pulse(), time.perf_counter()
        abandoned = self.aside.num_abandoned

        async def work() -> object:
            async with pulse:
                return await self.verify(attempt, self.sandbox, {})

        reward: object = None
        raised, odd, late = "", "", False
        try:
            reward = await self.aside.run(work, self.deadline_seconds)
            odd = malformed(reward, trajectory)
        except DeadlineExceeded:
            late = True
        except Exception as error:  # a user's verifier may raise anything
            raised = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - started
        blocked = self.deadline_seconds if self.aside.num_abandoned > abandoned else pulse.gap_seconds
        sound = reward if isinstance(reward, Reward) and not odd else None
        return Seen(sound, raised, odd, late, seconds, blocked)


class _Pulse:
    """Beat on the running loop and keep the longest time between two beats."""

    def __init__(self) -> None:
        self.gap_seconds = 0.0
        self._last = 0.0
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._last = time.perf_counter()
        self._beating = asyncio.create_task(self._beat())
        await asyncio.sleep(0)

    async def __aexit__(self, *_: object) -> None:
        self._mark(0.0)
        assert self._beating is not None
        self._beating.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._mark(BEAT_SECONDS)

    def _mark(self, slept: float) -> None:
        now = time.perf_counter()
        self.gap_seconds = max(self.gap_seconds, now - self._last - slept)
        self._last = now


def malformed(reward: object, trajectory: Trajectory) -> str:
    """Say what keeps a verdict from being a reward with finite numbers, or ''."""
    if not isinstance(reward, Reward):
        return f"gave {type(reward).__name__}, not a posttrain.Reward"
    try:
        numbers = [float(number) for number in (reward.value, *reward.parts.values(), *reward.by_turn)]
        named = all(isinstance(name, str) for name in (*reward.parts, *reward.flags))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        return f"gave a Reward whose values are not numbers: {error}"
    if not all(math.isfinite(number) for number in numbers):
        return f"gave a number that is not finite: {reward}"
    turns = sum(turn.by_policy for turn in trajectory.turns)
    if reward.by_turn and len(reward.by_turn) != turns:
        return f"gave {len(reward.by_turn)} by_turn rewards for {turns} turns"
    return "" if named else "gave names of parts or flags that are not text"


def attempt(task: Task, answer: str) -> Trajectory:
    """Return a one-turn attempt that gave this answer, with made-up tokens."""
    asked = "\n".join(message.content for message in task.prompt)
    prompt = Turn(Message("user", asked), tokens=(0,))
    reply = Turn(Message("assistant", answer), tokens=(1,), logprobs=(0.0,), version=0)
    return Trajectory(task, (prompt, reply), "stop")


def shortened(answer: str) -> str:
    """Return an answer as a report shows it."""
    return repr(answer if len(answer) <= 40 else f"{answer[:37]}...")


def note(rules: Rules, judge: Judge, what: str, seen: Seen) -> Reward | None:
    """Count one verdict under the rules that hold for every verdict; return its reward if it has one."""
    limit = judge.deadline_seconds
    rules.expect("verify keeps its deadline", not seen.late, f"{what}: none within {limit:g} s", VERDICTS)
    rules.expect(
        "verify leaves the loop free",
        seen.blocked_seconds <= BLOCK_SECONDS,
        f"{what}: the event loop stood still for {seen.blocked_seconds:.1f} s (at most {BLOCK_SECONDS:g}); "
        "await, or use asyncio.to_thread",
        VERDICTS,
    )
    if not seen.late:
        rules.expect("verify raises nothing", not seen.raised, f"{what}: {seen.raised}", VERDICTS)
    if not seen.late and not seen.raised:
        rules.expect("reward is finite", not seen.malformed, f"{what}: {seen.malformed}", VERDICTS)
    return seen.reward


def same(rules: Rules, what: str, first: Seen, second: Seen) -> None:
    """Count whether two verdicts on equal attempts are equal."""
    seen = f"{what}: {outcome_of(first)}, then {outcome_of(second)}"
    equal = (first.reward, first.raised) == (second.reward, second.raised)
    rules.expect("equal attempts get equal rewards", equal, seen, "attempts judged twice")


def outcome_of(seen: Seen) -> str:
    """Return a verdict as a report shows it."""
    if seen.reward is not None:
        return f"{seen.reward.value:g}"
    return "no verdict in time" if seen.late else seen.raised or seen.malformed
