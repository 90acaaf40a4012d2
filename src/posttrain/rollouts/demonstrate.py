"""Demonstrations as groups of one: what supervised warm-up trains on."""

from __future__ import annotations

from posttrain.chat.template import Chat
from posttrain.errors import InputError
from posttrain.protocols import Draw
from posttrain.types import Group, Message, Reward, Trajectory, Turn


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
