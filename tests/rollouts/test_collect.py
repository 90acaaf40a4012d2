"""Waves, turns, verdicts and their failures, over a scripted engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

from posttrain.chat.template import Chat
from posttrain.engines.scripted import Scripted
from posttrain.errors import RunFailed
from posttrain.protocols import Draw, Request
from posttrain.rollouts.collect import Collector
from posttrain.types import Message, Reward, Trajectory, Unjudged

MakeCollector = Callable[..., Collector]
MakeDraw = Callable[..., Draw]


def yes_if_even(request: Request) -> str:
    return "yes" if request.key.attempt % 2 == 0 else "no"


def engine_of(collector: Collector) -> Scripted:
    assert isinstance(collector.engine, Scripted)
    return collector.engine


async def test_a_group_holds_its_attempts_in_order_with_aligned_verdicts(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    harvest = await collector_of(yes_if_even).collect([make_draw(4), make_draw(5)])
    assert [group.sequence for group in harvest.groups] == [4, 5]
    assert [t.answer for t in harvest.groups[0].trajectories] == ["yes", "no", "yes"]
    assert harvest.groups[0].values == (1.0, 0.0, 1.0)
    assert harvest.started == {"d": 6}


async def test_one_wave_holds_every_attempt_and_each_has_a_key_of_its_own(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    collector = collector_of(yes_if_even)
    await collector.collect([make_draw(0), make_draw(1)])
    (wave,) = engine_of(collector).waves
    assert [(r.key.group, r.key.attempt) for r in wave] == [(g, a) for g in (0, 1) for a in range(3)]


async def test_what_was_sampled_is_kept_with_stop_token_logprobs_and_version(
    collector_of: MakeCollector, make_draw: MakeDraw, chat: Chat
) -> None:
    collector = collector_of(lambda _: "yes")
    await engine_of(collector).load({}, 7)
    (group,) = (await collector.collect([make_draw()])).groups
    prompt, answer = group.trajectories[0].turns
    assert prompt.logprobs is None
    assert answer.tokens == chat.answer("yes")
    assert answer.tokens[-1] in chat.stop_tokens
    assert answer.logprobs is not None
    assert len(answer.logprobs) == len(answer.tokens)
    assert answer.version == 7


async def test_turns_alternate_until_the_domain_ends_the_episode_and_prefixes_hold(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    async def respond(trajectory: Trajectory, session: object) -> tuple[Message, ...] | None:
        return None if len(trajectory.turns) > 3 else (Message("user", "again"),)

    collector = collector_of(lambda request: "ab"[request.key.turn], attempts=1)
    (group,) = (await collector.collect([make_draw(respond=respond)])).groups
    trajectory = group.trajectories[0]
    assert [turn.by_policy for turn in trajectory.turns] == [False, True, False, True]
    assert trajectory.answer == "b"
    first, second = engine_of(collector).waves
    assert second[0].prompt[: len(first[0].prompt)] == first[0].prompt
    assert trajectory.tokens[: len(second[0].prompt)] == second[0].prompt


async def test_an_episode_ends_at_the_domains_limit_of_turns(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    async def respond(trajectory: Trajectory, session: object) -> tuple[Message, ...]:
        return (Message("user", "again"),)

    (group,) = (await collector_of(lambda _: "no").collect([make_draw(respond=respond, max_turns=3)])).groups
    assert sum(turn.by_policy for turn in group.trajectories[0].turns) == 3


async def test_a_failing_or_hanging_responder_ends_its_episode_not_the_run(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    async def fails(trajectory: Trajectory, session: object) -> None:
        raise ValueError("no such tool")

    async def hangs(trajectory: Trajectory, session: object) -> None:
        await asyncio.sleep(60)

    draws = [make_draw(0, respond=fails), make_draw(1, respond=hangs)]
    harvest = await collector_of(lambda _: "yes", attempts=1).collect(draws)
    assert [group.trajectories[0].stop for group in harvest.groups] == ["error", "deadline"]
    verdicts = [group.verdicts[0] for group in harvest.groups]
    assert all(isinstance(verdict, Unjudged) for verdict in verdicts), "it was not the policy that failed"
    assert "no such tool" in str(verdicts[0])


async def test_a_verifier_that_raises_hangs_blocks_or_lies_leaves_attempts_unjudged(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    release = threading.Event()

    async def raises(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise ZeroDivisionError("in the verifier")

    async def hangs(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        await asyncio.sleep(60)
        return Reward(1.0)

    async def blocks(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        release.wait(30)
        return Reward(1.0)

    async def nan(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(float("nan"))

    async def text(trajectory: Trajectory, sandbox: object, files: object) -> object:
        return "well done"

    async def three_turns(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1.0, by_turn=(0.1, 0.2, 0.3))

    verifiers = [raises, hangs, nan, text, three_turns, blocks]
    draws = [make_draw(i, verify=verify) for i, verify in enumerate(verifiers)]
    harvest = await collector_of(lambda _: "yes", attempts=1).collect(draws)
    release.set()
    verdicts = [group.verdicts[0] for group in harvest.groups]
    kinds = [verdict.kind if isinstance(verdict, Unjudged) else "judged" for verdict in verdicts]
    assert kinds == ["error", "deadline", "invalid", "invalid", "invalid", "deadline"]
    assert isinstance(verdicts[0], Unjudged)
    assert "ZeroDivisionError: in the verifier" in verdicts[0].detail


async def test_a_verifier_that_ends_its_thread_or_returns_odd_numbers_is_unjudged(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    async def exits(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise SystemExit(0)

    async def interrupts(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise KeyboardInterrupt

    async def cancels(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise asyncio.CancelledError

    async def huge(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(10**400)

    async def large(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1e308)

    async def partless(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1.0, parts=None)  # type: ignore[arg-type]

    def plain(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        return Reward(1.0)

    async def shouts(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise ValueError("x" * 10**6)

    async def boxless(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        raise RunFailed("the sandbox has no verdict")

    verifiers = [exits, interrupts, cancels, huge, large, partless, plain, shouts, boxless]
    draws = [make_draw(i, verify=verify) for i, verify in enumerate(verifiers)]
    harvest = await collector_of(lambda _: "yes", attempts=2).collect(draws)
    verdicts = [group.verdicts[0] for group in harvest.groups]
    kinds = [verdict.kind if isinstance(verdict, Unjudged) else "judged" for verdict in verdicts]
    assert kinds == ["error", "error", "error", "invalid", "invalid", "invalid", "error", "error", "infra"]
    assert all(len(verdict.detail) <= 4_000 for verdict in verdicts if isinstance(verdict, Unjudged))


async def test_what_a_verifier_changes_does_not_reach_the_record(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    async def meddles(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        trajectory.task.reference["leak"] = 1  # type: ignore[index]
        object.__setattr__(trajectory, "turns", ())
        return Reward(1.0, flags=("odd",))

    (group,) = (await collector_of(lambda _: "yes").collect([make_draw(verify=meddles)])).groups
    assert dict(group.task.reference) == {"answer": "yes"}
    assert group.trajectories[0].answer == "yes"


async def test_a_missing_verdict_is_asked_for_again_and_the_attempt_is_not_resampled(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    calls: list[str] = []

    async def flaky(trajectory: Trajectory, sandbox: object, files: object) -> Reward:
        calls.append(trajectory.answer)
        if len(calls) == 1:
            raise ConnectionError("try again")
        return Reward(1.0)

    collector = collector_of(lambda _: "yes", attempts=1)
    (group,) = (await collector.collect([make_draw(verify=flaky)])).groups
    assert group.values == (1.0,)
    assert calls == ["yes", "yes"]
    assert len(engine_of(collector).waves) == 1


async def test_a_prompt_that_fills_the_context_is_left_out_and_named(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    collector = replace(collector_of(lambda _: "yes"), context=80)
    harvest = await collector.collect([make_draw(0), make_draw(1, prompt="long " * 40)])
    assert [group.sequence for group in harvest.groups] == [0]
    assert [draw.sequence for draw in harvest.too_long] == [1]


async def test_an_answer_without_a_stop_token_counts_as_cut_off(
    collector_of: MakeCollector, make_draw: MakeDraw
) -> None:
    harvest = await collector_of(lambda _: "a long answer without end").collect([make_draw()])
    assert {t.stop for t in harvest.groups[0].trajectories} == {"length"}
