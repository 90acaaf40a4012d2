"""Episodes with tools over a scripted engine: what is sampled, what is observed, and what is trained."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.batch import Batch
from posttrain.chat.template import Chat
from posttrain.domains.tools import tools
from posttrain.errors import InputError
from posttrain.protocols import Draw, Request, Sampling
from posttrain.records.groups import decode_group, encode_group
from posttrain.rollouts.collect import Collector
from posttrain.rollouts.demonstrate import demonstrated
from posttrain.runtime.inline import Aside
from posttrain.types import Message, Reward, Task, ToolCall, Trajectory

MakeCollector = Callable[..., Collector]
SAMPLING = Sampling(max_tokens=400)


def draw_of(level: int, index: int = 0) -> Draw:
    domain = tools("shop")
    return Draw(index, domain, domain.task("train", level, index))


def gold(chat: Chat, task: Task) -> list[str]:
    return [
        chat.written(
            Message(
                "assistant",
                said["content"],
                tuple(ToolCall("", c["name"], c["arguments"]) for c in said.get("tool_calls", ())),
            )
        )
        for said in task.reference["demonstration"]
    ]


@pytest.mark.parametrize("level", range(5))
async def test_calls_run_and_their_results_are_observed_until_the_answer(
    collector_of: MakeCollector, chat: Chat, level: int
) -> None:
    draw = draw_of(level)
    turns = gold(chat, draw.task)
    collector = collector_of(lambda request: turns[request.key.turn], attempts=1, sampling=SAMPLING)
    (group,) = (await collector.collect([draw])).groups
    (trajectory,) = group.trajectories
    assert group.values == (1.0,)
    assert [turn.message.content for turn in trajectory.turns if turn.by_policy] == turns
    assert trajectory.stop == "stop"
    assert decode_group(encode_group(group)) == group


async def test_only_the_policys_tokens_are_trained(collector_of: MakeCollector, chat: Chat) -> None:
    draw = draw_of(4)
    turns = gold(chat, draw.task)
    collector = collector_of(lambda request: turns[request.key.turn], attempts=2, sampling=SAMPLING)
    (group,) = (await collector.collect([draw])).groups
    batch = Batch.of([group])
    own = [token for text in turns for token in chat.answer(text)]
    for row in range(2):
        assert batch.tokens[row][batch.mask[row]].tolist() == own
        shown = chat.tokenizer.decode(batch.tokens[row][~batch.mask[row]].tolist())
        assert "<|im_start|>tool\n[{" in shown, "results are in the sequence, outside the mask"
        assert "To call one, write" in shown, "a template without tools gets them in words"


async def test_the_same_turns_give_the_same_episode_and_requests_extend_each_other(
    collector_of: MakeCollector, chat: Chat
) -> None:
    draw = draw_of(3)
    turns = gold(chat, draw.task)

    def say(request: Request) -> str:
        return turns[request.key.turn]

    first, second = (collector_of(say, attempts=1, sampling=SAMPLING) for _ in range(2))
    assert (await first.collect([draw])).groups == (await second.collect([draw])).groups
    waves: Any = [wave[0].prompt for wave in first.engine.waves]  # type: ignore[attr-defined]
    for shorter, longer in itertools.pairwise(waves):
        assert longer[: len(shorter)] == shorter


async def test_a_policy_that_never_answers_is_judged_at_its_last_turn(collector_of: MakeCollector) -> None:
    collector = collector_of(lambda _: "call nothing {}\ncall {", attempts=1, sampling=SAMPLING)
    (group,) = (await collector.collect([draw_of(0)])).groups
    assert sum(turn.by_policy for turn in group.trajectories[0].turns) == 8
    (verdict,) = group.verdicts
    assert isinstance(verdict, Reward)
    assert (verdict.value, verdict.parts["errors"], verdict.parts["calls"]) == (0.0, 7.0, 7.0)


async def test_several_results_are_one_turn_with_all_their_texts(
    collector_of: MakeCollector, chat: Chat
) -> None:
    said = ["call a {}\ncall b {}", "Done."]
    collector = collector_of(lambda request: said[request.key.turn], attempts=1, sampling=SAMPLING)
    (group,) = (await collector.collect([draw_of(0)])).groups
    observed = group.trajectories[0].turns[2]
    assert not observed.by_policy
    assert "no tool 'a'" in observed.message.content
    assert "no tool 'b'" in observed.message.content
    assert chat.tokenizer.decode(list(observed.tokens)).count("<|im_start|>tool") == 2


@pytest.mark.parametrize("level", range(5))
async def test_a_demonstration_is_played_turn_by_turn_and_only_its_turns_are_scored(
    chat: Chat, aside: Aside, level: int
) -> None:
    draw = draw_of(level, 3)
    group = await demonstrated(draw, chat, aside)
    batch = Batch.of([group])
    own = [token for text in gold(chat, draw.task) for token in chat.answer(text)]
    assert batch.tokens[0][batch.mask[0]].tolist() == own
    assert (await draw.domain.verify(group.trajectories[0], None, {})).value == 1.0  # type: ignore[arg-type]


async def test_a_single_gold_answer_is_demonstrated_as_before(
    make_draw: Callable[..., Draw], chat: Chat, aside: Aside
) -> None:
    group = await demonstrated(make_draw(), chat, aside)
    assert group.trajectories[0].answer == "yes"
    assert len(group.trajectories[0].turns) == 2


async def test_a_demonstration_that_goes_on_after_the_end_is_named(
    make_draw: Callable[..., Draw], chat: Chat, aside: Aside
) -> None:
    async def ends(trajectory: Trajectory, session: object) -> None:
        return None

    said = {"demonstration": [{"content": "a"}, {"content": "b"}]}
    task = Task("t7", "d", 0, (Message("user", "?"),), said)
    for draw in (make_draw(respond=ends), make_draw()):
        with pytest.raises(InputError, match=r"domain 'd', task 't7': the episode ends before"):
            await demonstrated(Draw(0, draw.domain, task), chat, aside)
