"""Demonstrations: the gold answer's tokens, and nothing else, are what trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from posttrain.batch import Batch
from posttrain.chat.template import Chat
from posttrain.errors import InputError
from posttrain.protocols import Draw
from posttrain.rollouts.demonstrate import demonstrate


def test_only_the_answer_and_its_stop_token_are_scored(make_draw: Callable[..., Draw], chat: Chat) -> None:
    batch = Batch.of([demonstrate(make_draw(), chat)])
    assert tuple(batch.tokens[batch.mask].tolist()) == chat.answer("yes")
    assert int(batch.lengths[0]) == int(batch.prompt_lengths[0]) + len(chat.answer("yes"))


@pytest.mark.parametrize("reference", [{}, {"answer": ""}, {"answer": 7}])
def test_a_task_without_a_gold_text_is_named(
    make_draw: Callable[..., Draw], chat: Chat, reference: dict[str, object]
) -> None:
    draw = make_draw(3)
    with pytest.raises(InputError, match=r"domain 'd', task 't3'.*reference\['answer'\]"):
        demonstrate(replace(draw, task=replace(draw.task, reference=reference)), chat)
