"""Demonstrations as groups of one: what supervised warm-up trains on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posttrain.chat.template import Chat
from posttrain.errors import InputError
from posttrain.protocols import Draw
from posttrain.rollouts.episode import observed
from posttrain.runtime.inline import Aside
from posttrain.types import Group, Message, Reward, ToolCall, Trajectory, Turn

SECONDS = 30.0
"""How long a domain may take to answer one turn of a demonstration."""


async def demonstrated(draw: Draw, chat: Chat, aside: Aside) -> Group:
    """Return the task's demonstration as a group of one attempt with reward 1, turn by turn if it has turns.

    `task.reference["demonstration"]` lists the policy's turns: `content` and `tool_calls` with `name` and
    `arguments`. Between two of them the domain answers as in an episode. Without it, the gold answer is
    the only turn. Raises InputError where the domain ends the episode before its last turn.
    """
    turns = draw.task.reference.get("demonstration")
    if turns is None:
        return demonstrate(draw, chat)
    played = [Turn(draw.task.prompt[-1], chat.prompt(draw.task.prompt, draw.task.tools))]
    for number, said in enumerate(turns):
        if number:
            played.append(await _answered(draw, tuple(played), chat, aside))
        tokens = chat.answer(chat.written(_message(said)))
        played.append(Turn(chat.message(tokens, number), tokens, (0.0,) * len(tokens)))
    return Group(draw.sequence, draw.task, (Trajectory(draw.task, tuple(played), "stop"),), (Reward(1.0),))


async def _answered(draw: Draw, played: tuple[Turn, ...], chat: Chat, aside: Aside) -> Turn:
    respond, seen = draw.domain.respond, Trajectory(draw.task, played, "stop")
    messages = None if respond is None else await aside.run(lambda: respond(seen, None), SECONDS)
    if messages is None:
        raise InputError(
            f"domain {draw.domain.name!r}, task {draw.task.id!r}: the episode ends before the last turn of "
            "reference['demonstration']. Leave out what follows, or mend the domain's `respond`."
        )
    return observed(messages, chat.reply(messages))


def _message(said: Mapping[str, Any]) -> Message:
    calls = tuple(ToolCall("", call["name"], call["arguments"]) for call in said.get("tool_calls", ()))
    return Message("assistant", said.get("content", ""), calls)


def demonstrate(draw: Draw, chat: Chat) -> Group:
    """Return the task's gold answer as a group of one attempt with reward 1.

    The gold answer is `task.reference["answer"]`. Its tokens count as the policy's, with
    log-probability 0, so they are what is trained. Raises InputError where a task has no gold answer.
    """
    gold = draw.task.reference.get("answer")
    if not isinstance(gold, str) or not gold:
        raise InputError(
            f"domain {draw.domain.name!r}, task {draw.task.id!r}: no text in reference['answer'], so nothing "
            "to demonstrate. Give tasks a gold answer, or leave the domain out of the warm-up."
        )
    prompt = Turn(draw.task.prompt[-1], chat.prompt(draw.task.prompt, draw.task.tools))
    tokens = chat.answer(gold)
    answer = Turn(Message("assistant", gold), tokens, (0.0,) * len(tokens))
    return Group(draw.sequence, draw.task, (Trajectory(draw.task, (prompt, answer), "stop"),), (Reward(1.0),))
