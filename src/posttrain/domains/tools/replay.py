"""An attempt replayed: what its calls did, what the user was asked, and what comes next.

Nothing is kept between turns: state, results and questions are a function of the task and the policy's
turns, so that an episode can be replayed from its record.
"""

from __future__ import annotations

import copy
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.domains.tools.scenario import Known
from posttrain.domains.tools.tool import State, Tool, called
from posttrain.types import Message, Trajectory

MAX_QUESTIONS = 3
NOTHING_TO_SAY = "I cannot tell you more."


@dataclass(slots=True)
class Replay:
    """What has happened up to the policy's last turn that was answered."""

    state: State
    num_calls: int = 0
    num_errors: int = 0
    num_questions: int = 0
    states: list[State] = field(default_factory=list)
    """The state after each turn of the policy."""

    def take(
        self, message: Message, tools: Sequence[Tool], knows: Sequence[Known]
    ) -> tuple[Message, ...] | None:
        """Return what answers a turn, its calls made in order; None where it ends the episode."""
        if message.tool_calls:
            return tuple(self._made(message, tools))
        if not knows or "?" not in message.content or self.num_questions == MAX_QUESTIONS:
            return None
        self.num_questions += 1
        asked = unicodedata.normalize("NFKC", message.content[:2_000]).casefold()
        told = [known.answer for known in knows if any(word in asked for word in known.words)]
        return (Message("user", " ".join(told) or NOTHING_TO_SAY),)

    def _made(self, message: Message, tools: Sequence[Tool]) -> list[Message]:
        results = []
        for call in message.tool_calls:
            outcome = called(self.state, tools, call)
            self.num_calls += 1
            self.num_errors += outcome.is_error
            results.append(Message("tool", outcome.text, tool_call_id=call.id))
        return results


def knowledge(setup: Mapping[str, Any]) -> tuple[Known, ...]:
    """Return what the user of a task knows."""
    return tuple(Known(tuple(each["words"]), each["answer"]) for each in setup["knows"])


def replayed(trajectory: Trajectory, tools: Sequence[Tool]) -> Replay:
    """Return what an attempt's answered turns did: those after which something was said to the policy."""
    setup, turns = trajectory.task.setup, trajectory.turns
    replay, knows = Replay(copy.deepcopy(setup["state"])), knowledge(setup)
    for place, turn in enumerate(turns):
        if not turn.by_policy:
            continue
        if place + 1 < len(turns):
            replay.take(turn.message, tools, knows)
        replay.states.append(copy.deepcopy(replay.state))
    return replay
