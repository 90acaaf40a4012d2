"""Draws → groups with verdicts, wave by wave.

A wave is all live attempts' next turns, in sequence order: what is sampled depends on the wave and the
weights alone, never on a clock. Verdicts are asked for as soon as an attempt ends.
"""

from __future__ import annotations

import asyncio
import copy
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from posttrain.chat.template import Chat
from posttrain.errors import PosttrainError
from posttrain.protocols import Draw, Engine, Purpose, Sampling, Sandbox
from posttrain.rollouts.episode import Episode
from posttrain.rollouts.judge import MAX_DETAIL, Deadlines, judge
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
    """Everything that turns draws into groups; `verify_seconds` of a harvest is time spent waiting."""

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
        verdicts: dict[int, asyncio.Task[Verdict]] = {}
        while live := [episode for episode in episodes if episode.stop is None]:
            await self._advance(live)
            verdicts |= {id(e): asyncio.create_task(self._judge(e)) for e in live if e.stop is not None}
        sampled = time.perf_counter()
        await asyncio.gather(*verdicts.values())
        groups = [_group(draw, episodes, verdicts) for draw in fitting]
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

    async def _advance(self, live: list[Episode]) -> None:
        completions = await self.engine.generate([episode.request() for episode in live])
        for episode, completion in zip(live, completions, strict=True):
            episode.take(completion, self.chat)
        await asyncio.gather(*(self._respond(episode) for episode in live if episode.stop is None))

    async def _respond(self, episode: Episode) -> None:
        respond = episode.draw.domain.respond
        assert respond is not None, "an episode without `respond` ends with its first turn"
        try:
            seen = copy.deepcopy(episode.trajectory())
            work = self.aside.run(lambda: respond(seen, None), self.deadlines.respond_seconds)
            episode.reply(await work, self.chat)
        except PosttrainError:
            raise
        except DeadlineExceeded as late:
            episode.stop = "deadline"
            episode.failure = Unjudged("deadline", f"{episode.draw.domain.name}.respond: {late}")
        except Exception:  # a user's domain may raise anything, and none of it is the policy's fault
            episode.stop = "error"
            episode.failure = Unjudged("error", traceback.format_exc(limit=-5)[-MAX_DETAIL:])

    async def _judge(self, episode: Episode) -> Verdict:
        if episode.failure is not None:
            return episode.failure
        domain = episode.draw.domain
        return await judge(domain, episode.trajectory(), self.sandbox, self.aside, self.deadlines)


def _group(draw: Draw, episodes: list[Episode], verdicts: dict[int, asyncio.Task[Verdict]]) -> Group:
    own = [episode for episode in episodes if episode.draw is draw]
    trajectories = tuple(episode.trajectory() for episode in own)
    return Group(draw.sequence, draw.task, trajectories, tuple(verdicts[id(e)].result() for e in own))
