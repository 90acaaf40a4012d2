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
from posttrain.protocols import Completion, Draw, Program, Request, RunResult
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


@pytest.mark.parametrize("way", ["awaits for ever", "blocks its thread"])
async def test_seven_healthy_domains_are_judged_before_an_eighth_that_hangs_is_given_up(
    collector_of: MakeCollector, way: str
) -> None:
    release, judged, judged_at_first_miss = threading.Event(), Counter[str](), list[int]()

    async def healthy(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        await asyncio.sleep(0)
        judged[trajectory.task.domain] += 1
        return Reward(1.0)

    async def hangs(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        try:
            await asyncio.sleep(60) if way == "awaits for ever" else release.wait(60)
        finally:
            judged_at_first_miss.append(judged.total())
        return Reward(1.0)

    draws = [draw(0, "bad", hangs)]
    draws += [draw(i + 1, f"good{i % NUM_HEALTHY}", healthy) for i in range(2 * NUM_HEALTHY)]
    deadlines = Deadlines(verify_seconds=2.0, in_flight=2, misses=2)
    collector = replace(collector_of(lambda _: "yes", attempts=8), deadlines=deadlines)
    harvest = await collector.collect(draws)
    release.set()
    assert sum(kinds(harvest, f"good{i}")["judged"] for i in range(NUM_HEALTHY)) == 2 * NUM_HEALTHY * 8
    assert kinds(harvest, "bad") == {"deadline": 8}
    if way == "awaits for ever":
        assert judged_at_first_miss[0] == 2 * NUM_HEALTHY * 8, "all others were judged while it hung"


class Busy:
    """A sandbox in which the programs of the bad domain never end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def run(self, program: Program) -> RunResult:
        self.begun.append(program.source)
        self.running[program.source] += 1
        self.most[program.source] = max(self.most[program.source], self.running[program.source])
        try:
            await asyncio.sleep(60 if program.source == "bad" else 0)
        finally:
            self.running[program.source] -= 1
        return ran()


async def test_a_domain_slow_in_the_sandbox_leaves_boxes_to_the_others_and_is_given_up(
    collector_of: MakeCollector,
) -> None:
    async def runs(trajectory: Trajectory, sandbox: Any, files: object) -> Reward:
        await sandbox.run(Program("python", trajectory.task.domain))
        return Reward(1.0)

    sandbox = Busy()
    deadlines = Deadlines(verify_seconds=0.3, misses=2, retries=1)
    collector = replace(
        collector_of(lambda _: "yes", attempts=16), deadlines=deadlines, boxes=2, sandbox=sandbox
    )
    draws = [draw(0, "bad", runs), *(draw(i + 1, f"good{i}", runs) for i in range(NUM_HEALTHY))]
    harvest = await collector.collect(draws)
    assert sandbox.most["bad"] == 1, "one of two boxes stays free for the others"
    assert sum(kinds(harvest, f"good{i}")["judged"] for i in range(NUM_HEALTHY)) == NUM_HEALTHY * 16
    assert kinds(harvest, "bad") == {"deadline": 16}
    assert sandbox.begun.count("bad") <= 3, "what waited for a box was withdrawn after two misses"
    last_good = max(i for i, name in enumerate(sandbox.begun) if name != "bad")
    assert sandbox.begun[:last_good].count("bad") == 1, "all others ran while the first bad one did"


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
