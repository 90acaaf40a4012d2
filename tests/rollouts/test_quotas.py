"""What a domain that hangs, blocks or is slow may take: asserted by the order of events, never by a clock."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from posttrain.engines.telling import Told
from posttrain.protocols import Completion, Draw, Limits, Program, Request, RunResult
from posttrain.rollouts.collect import Collector, Harvest
from posttrain.rollouts.judge import Deadlines
from posttrain.sandbox.scripted import ran
from posttrain.types import Domain, Message, Reward, Task, Trajectory, Unjudged

MakeCollector = Callable[..., Collector]
Verify = Callable[[Trajectory, Any, Any], Awaitable[Reward]]
NUM_HEALTHY = 7


def draw(sequence: int, name: str, verify: Verify) -> Draw:
    task = Task(f"t{sequence}", name, 0, (Message("user", "?"),), {})
    return Draw(sequence, Domain(name, lambda s, n: None, lambda s, n, i: task, verify), task)


def kinds(harvest: Harvest, domain: str) -> Counter[str]:
    return Counter(
        verdict.kind if isinstance(verdict, Unjudged) else "judged"
        for group in harvest.groups
        if group.task.domain == domain
        for verdict in group.verdicts
    )


@pytest.mark.parametrize("way", ["awaits", "blocks its thread"])
async def test_seven_healthy_domains_are_judged_while_an_eighth_hangs(
    collector_of: MakeCollector, way: str
) -> None:
    all_judged, judged = threading.Event(), list[str]()

    async def healthy(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        await asyncio.sleep(0)
        judged.append(trajectory.task.domain)
        if len(judged) == 2 * NUM_HEALTHY * 8:
            all_judged.set()
        return Reward(1.0)

    async def hangs(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        """End only once all others are judged: had they to wait for this one, it would miss its deadline."""
        if way == "awaits":
            while not all_judged.is_set():
                await asyncio.sleep(0.01)
        else:
            all_judged.wait()
        return Reward(0.5)

    # The last request is told of first: the bad domain is asked before any other.
    draws = [draw(i, f"good{i % NUM_HEALTHY}", healthy) for i in range(2 * NUM_HEALTHY)]
    deadlines = Deadlines(verify_seconds=60.0, in_flight=2)
    collector = replace(collector_of(lambda _: "yes", attempts=8), deadlines=deadlines)
    harvest = await collector.collect([*draws, draw(99, "bad", hangs)])
    assert harvest.groups[-1].values == (0.5,) * 8
    assert all(group.values == (1.0,) * 8 for group in harvest.groups[:-1])


class Busy:
    """A sandbox in which the programs of the bad domain end once `enough` others have begun."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.begun: list[str] = []
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def run(self, program: Program, limits: Limits) -> RunResult:
        name = program.source
        self.begun.append(name)
        self.running[name] += 1
        self.most[name] = max(self.most[name], self.running[name])
        try:
            while name == "bad" and len(self.begun) - self.begun.count("bad") < self.enough:
                await asyncio.sleep(0.01)
        finally:
            self.running[name] -= 1
        return ran()


async def runs(trajectory: Trajectory, sandbox: Any, files: object) -> Reward:
    await sandbox.run(Program("python", trajectory.task.domain))
    return Reward(1.0)


async def test_a_domain_slow_in_the_sandbox_leaves_a_box_to_the_others(collector_of: MakeCollector) -> None:
    sandbox = Busy(enough=NUM_HEALTHY * 4)
    collector = collector_of(lambda _: "yes", attempts=4, sandbox=sandbox)
    collector = replace(collector, deadlines=Deadlines(verify_seconds=60.0), boxes=2)
    draws = [draw(i, f"good{i}", runs) for i in range(NUM_HEALTHY)]
    harvest = await collector.collect([*draws, draw(99, "bad", runs)])
    assert sandbox.begun[0] == "bad"
    assert sandbox.begun.count("bad") == 4
    assert sandbox.begun[: NUM_HEALTHY * 4 + 1].count("bad") == 1, "the others ran while the first one did"
    assert all(group.values == (1.0,) * 4 for group in harvest.groups)


async def test_what_waits_for_a_box_is_withdrawn_once_its_domain_is_given_up(
    collector_of: MakeCollector,
) -> None:
    sandbox = Busy(enough=1)
    collector = collector_of(lambda _: "yes", attempts=16, sandbox=sandbox)
    deadlines = Deadlines(verify_seconds=0.2, misses=2, retries=1)
    collector = replace(collector, deadlines=deadlines, boxes=1)
    harvest = await collector.collect([draw(0, "bad", runs)])
    assert kinds(harvest, "bad") == {"deadline": 16}
    # The box of the second may be granted once more before its miss is counted.
    assert len(sandbox.begun) in (2, 3)
    details = [verdict.detail for verdict in harvest.groups[0].verdicts if isinstance(verdict, Unjudged)]
    assert sum("not asked" in detail for detail in details) >= 13


async def test_after_missed_deadlines_a_domain_is_not_asked_again_in_this_step(
    collector_of: MakeCollector,
) -> None:
    asked: list[str] = []

    async def hangs(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        asked.append(trajectory.task.id)
        await asyncio.sleep(60)
        return Reward(1.0)

    deadlines = Deadlines(verify_seconds=0.1, in_flight=2, misses=3, retries=1)
    collector = replace(collector_of(lambda _: "yes", attempts=20), deadlines=deadlines)
    harvest = await collector.collect([draw(0, "bad", hangs)])
    assert kinds(harvest, "bad") == {"deadline": 20}
    # Two at a time: the misses of two pairs of calls reach three, and no call starts after that.
    assert len(asked) == 4
    details = [verdict.detail for verdict in harvest.groups[0].verdicts if isinstance(verdict, Unjudged)]
    assert sum("not asked" in detail for detail in details) >= 16
    await collector.collect([draw(1, "bad", hangs)])
    assert len(asked) == 8, "the next step asks anew"


async def test_one_attempt_in_many_that_blocks_costs_its_own_verdict_only(
    collector_of: MakeCollector,
) -> None:
    release, asked = threading.Event(), Counter[str]()

    async def blocks_on_a_word(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        asked[trajectory.answer] += 1
        if trajectory.answer == "bad":
            release.wait(60)
        return Reward(1.0)

    deadlines = Deadlines(verify_seconds=0.2, retries=3)
    collector = collector_of(lambda request: "bad" if request.key.attempt == 5 else "ok", attempts=12)
    harvest = await replace(collector, deadlines=deadlines).collect([draw(0, "d", blocks_on_a_word)])
    release.set()
    assert kinds(harvest, "d") == {"judged": 11, "deadline": 1}
    assert asked["bad"] == 1, "what has blocked its thread is not asked again"


async def test_no_more_verdicts_of_a_domain_are_under_way_than_its_quota(
    collector_of: MakeCollector,
) -> None:
    under_way, most = Counter[str](), Counter[str]()

    async def counts(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        name = trajectory.task.domain
        under_way[name] += 1
        most[name] = max(most[name], under_way[name])
        await asyncio.sleep(0.002)
        under_way[name] -= 1
        return Reward(1.0)

    deadlines = Deadlines(verify_seconds=20.0, in_flight=3)
    collector = replace(collector_of(lambda _: "yes", attempts=10), deadlines=deadlines)
    await collector.collect([draw(0, "a", counts), draw(1, "b", counts)])
    assert most == {"a": 3, "b": 3}


class Held:
    """An engine that ends its wave only once `gate` is set, and tells of each completion before."""

    def __init__(self, inner: Any, gate: asyncio.Event) -> None:
        self.inner, self.gate = inner, gate

    @property
    def version(self) -> int:
        return int(self.inner.version)

    async def load(self, weights: Any, version: int) -> None:
        await self.inner.load(weights, version)

    async def generate(self, wave: Any) -> list[Completion]:
        return list(await self.inner.generate(wave))

    async def generate_telling(self, wave: Any, told: Told) -> list[Completion]:
        completions = list(await self.inner.generate_telling(wave, told))
        await asyncio.wait_for(self.gate.wait(), 20)
        return completions


async def test_all_verdicts_are_there_before_the_wave_that_is_still_sampled_has_ended(
    collector_of: MakeCollector,
) -> None:
    gate, loop, judged = asyncio.Event(), asyncio.get_running_loop(), list[str]()

    async def opens_the_gate(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        judged.append(trajectory.task.id)
        if len(judged) == 64 * 8:
            loop.call_soon_threadsafe(gate.set)
        return Reward(float(trajectory.answer == "yes"))

    collector = collector_of(lambda request: "yes" if request.key.attempt % 2 else "no", attempts=8)
    draws = [draw(i, "d", opens_the_gate) for i in range(64)]
    overlapped = await replace(collector, engine=Held(collector.engine, gate)).collect(draws)

    class Plain:
        """The same engine without the gift of telling."""

        version = 0
        load = collector.engine.load
        generate = collector.engine.generate

    plain = await replace(collector, engine=Plain()).collect(draws)  # type: ignore[arg-type]
    assert overlapped.groups == plain.groups, "when verdicts are asked for changes nothing"


async def test_turns_are_answered_early_but_sampled_in_one_wave(collector_of: MakeCollector) -> None:
    answered: list[int] = []

    async def respond(trajectory: Trajectory, session: object) -> tuple[Message, ...] | None:
        answered.append(len(trajectory.turns))
        return (Message("user", "again"),) if len(trajectory.turns) < 4 else None

    async def fine(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1.0)

    def say(request: Request) -> str:
        return f"turn {request.key.turn}"

    collector = collector_of(say, attempts=3)
    draws = [
        replace(d, domain=replace(d.domain, respond=respond))
        for d in (draw(0, "d", fine), draw(1, "d", fine))
    ]
    harvest = await collector.collect(draws)
    waves = collector.engine.waves  # type: ignore[attr-defined]
    assert [[r.key.turn for r in wave] for wave in waves] == [[0] * 6, [1] * 6]
    assert sorted(answered) == [2] * 6 + [4] * 6
    assert all(group.values == (1.0,) * 3 for group in harvest.groups)
