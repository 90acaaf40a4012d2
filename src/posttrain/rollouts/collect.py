"""Draws → groups with verdicts, wave by wave.

A wave is all live attempts' next turns, in sequence order: what is sampled depends on the wave and the
weights alone, never on a clock. Verdicts are asked for as soon as an attempt ends, while the rest of its wave
is still being sampled; a domain's answers to turns are waited for at the wave's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import time
import traceback
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from posttrain.chat.template import Chat
from posttrain.engines.telling import Telling
from posttrain.errors import PosttrainError
from posttrain.protocols import Completion, Draw, Engine, Purpose, Sampling, Sandbox
from posttrain.rollouts.boxes import Boxes, LazySession
from posttrain.rollouts.episode import Episode
from posttrain.rollouts.judge import MAX_DETAIL, Deadlines, GivenUp, Quotas, judge
from posttrain.runtime.inline import Aside, DeadlineExceeded
from posttrain.types import Group, Turn, Unjudged, Verdict


@dataclass(frozen=True, slots=True)
class Harvest:
    """The groups of some draws, those whose prompt did not fit, and where the time went (seconds).

    `started` counts the attempts begun in each domain, whatever became of them.
    """

    groups: tuple[Group, ...]
    too_long: tuple[Draw, ...]
    num_tokens: int
    sample_seconds: float
    verify_seconds: float
    started: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Harvest) -> Harvest:
        return Harvest(
            self.groups + other.groups,
            self.too_long + other.too_long,
            self.num_tokens + other.num_tokens,
            self.sample_seconds + other.sample_seconds,
            self.verify_seconds + other.verify_seconds,
            Counter(self.started) + Counter(other.started),
        )


@dataclass(frozen=True, slots=True)
class Collector:
    """Everything that turns draws into groups; `verify_seconds` of a harvest is time spent waiting.

    `boxes` is the number of programs that the sandbox runs at once.
    """

    engine: Engine
    chat: Chat
    sandbox: Sandbox
    aside: Aside
    sampling: Sampling
    deadlines: Deadlines
    attempts: int
    context: int
    seed: int
    purpose: Purpose
    boxes: int = 1

    async def collect(self, draws: Sequence[Draw]) -> Harvest:
        """Sample and judge `attempts` attempts at each draw."""
        prompts = {draw.sequence: self.prompt(draw) for draw in draws}
        fitting = [draw for draw in draws if len(prompts[draw.sequence].tokens) < self.context]
        episodes = [
            Episode(
                draw, attempt, self.seed, self.purpose, self.sampling, self.context, [prompts[draw.sequence]]
            )
            for draw in fitting
            for attempt in range(self.attempts)
        ]
        started = time.perf_counter()
        round_ = _Round(self, self.quotas({draw.domain.name for draw in fitting}))
        try:
            while live := [episode for episode in episodes if episode.stop is None]:
                await round_.advance(live)
            sampled = time.perf_counter()
            await asyncio.gather(*round_.verdicts.values())
        finally:
            round_.cancel()
        groups = [_group(draw, episodes, round_.verdicts) for draw in fitting]
        return Harvest(
            groups=tuple(groups),
            too_long=tuple(draw for draw in draws if draw not in fitting),
            num_tokens=sum(t.num_sampled for g in groups for t in g.trajectories),
            sample_seconds=sampled - started,
            verify_seconds=time.perf_counter() - sampled,
            started=Counter(episode.draw.task.domain for episode in episodes),
        )

    def prompt(self, draw: Draw) -> Turn:
        """Render a task's prompt, ready for the policy's first turn."""
        return Turn(draw.task.prompt[-1], self.chat.prompt(draw.task.prompt, draw.task.tools))

    def quotas(self, domains: Collection[str]) -> Quotas:
        """Return fresh quotas for one step's work on `domains`."""
        return Quotas(self.sandbox, self.aside, self.deadlines, Boxes(self.boxes, len(domains)))


class _Round:
    """One call of `collect`: waves, and what follows each attempt's turn."""

    def __init__(self, collector: Collector, quotas: Quotas) -> None:
        self._collector, self._quotas = collector, quotas
        self._following: set[asyncio.Task[None]] = set()
        self._sessions: dict[int, LazySession] = {}
        self.verdicts: dict[int, asyncio.Task[Verdict]] = {}

    async def advance(self, live: Sequence[Episode]) -> None:
        """Sample one turn of every live episode, and have each answered or judged as soon as it is there."""
        loop, taken = asyncio.get_running_loop(), set[int]()

        def take(index: int, completion: Completion) -> None:
            if index not in taken:
                taken.add(index)
                live[index].take(completion, self._collector.chat)
                self._following.add(asyncio.create_task(self._follow(live[index])))

        def told(index: int, completion: Completion) -> None:
            loop.call_soon_threadsafe(take, index, completion)

        engine, wave = self._collector.engine, [episode.request() for episode in live]
        if isinstance(engine, Telling):
            completions = await engine.generate_telling(wave, told)
        else:
            completions = await engine.generate(wave)
        for index, completion in enumerate(completions):
            take(index, completion)
        await asyncio.gather(*self._following)
        self._following.clear()

    def cancel(self) -> None:
        """Drop what is still under way: the round has failed, or nothing is."""
        for task in (*self._following, *self.verdicts.values()):
            task.cancel()

    async def _follow(self, episode: Episode) -> None:
        if episode.stop is None:
            await self._respond(episode)
        if episode.stop is not None:
            self.verdicts[id(episode)] = asyncio.create_task(self._judge(episode))

    async def _respond(self, episode: Episode) -> None:
        domain, seconds = episode.draw.domain, self._quotas.deadlines.respond_seconds
        respond = domain.respond
        assert respond is not None, "an episode without `respond` ends with its first turn"
        seen = copy.deepcopy(episode.trajectory())
        session = self._sessions.setdefault(id(episode), LazySession(self._collector.sandbox))
        try:
            messages = await self._quotas.ask(
                "respond", domain, lambda boxes: respond(seen, boxes.sharing(session)), seconds
            )
            episode.reply(messages, self._collector.chat)
        except PosttrainError:
            raise
        except (DeadlineExceeded, GivenUp) as late:
            episode.stop = "deadline"
            episode.failure = Unjudged("deadline", f"{domain.name}.respond: {late}")
        except Exception:  # a user's domain may raise anything, and none of it is the policy's fault
            episode.stop = "error"
            episode.failure = Unjudged("error", traceback.format_exc(limit=-5)[-MAX_DETAIL:])

    async def _judge(self, episode: Episode) -> Verdict:
        if (session := self._sessions.pop(id(episode), None)) is not None:
            with contextlib.suppress(Exception):  # a lost session is closed already
                await session.close()
        if episode.failure is not None:
            return episode.failure
        return await judge(episode.draw.domain, episode.trajectory(), self._quotas)


def _group(draw: Draw, episodes: list[Episode], verdicts: dict[int, asyncio.Task[Verdict]]) -> Group:
    own = [episode for episode in episodes if episode.draw is draw]
    trajectories = tuple(episode.trajectory() for episode in own)
    return Group(draw.sequence, draw.task, trajectories, tuple(verdicts[id(e)].result() for e in own))
