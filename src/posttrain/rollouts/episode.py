"""One attempt, turn by turn: what it asks of the engine and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from posttrain.chat.template import Chat
from posttrain.protocols import Completion, Draw, Purpose, Request, SampleKey, Sampling
from posttrain.types import Message, Stop, Trajectory, Turn, Unjudged


@dataclass(slots=True)
class Episode:
    """An attempt under way; `stop` is None while it lives, `failure` says what broke between its turns."""

    draw: Draw
    attempt: int
    seed: int
    purpose: Purpose
    sampling: Sampling
    context: int
    turns: list[Turn] = field(default_factory=list)
    stop: Stop | None = None
    failure: Unjudged | None = None

    def request(self) -> Request:
        """Return the next turn to sample; its randomness depends on the attempt's identity only."""
        prompt = tuple(token for turn in self.turns for token in turn.tokens)
        number = sum(turn.by_policy for turn in self.turns)
        key = SampleKey(self.seed, self.purpose, self.draw.sequence, self.attempt, number)
        return Request(prompt, key, self.sampling)

    def take(self, completion: Completion, chat: Chat) -> None:
        """Append what was sampled; a turn cut short, or the last one allowed, ends the episode."""
        if self.draw.task.tools:
            message = chat.message(completion.tokens, sum(turn.by_policy for turn in self.turns))
        else:
            message = Message("assistant", chat.text(completion.tokens))
        self.turns.append(Turn(message, completion.tokens, completion.logprobs, completion.version))
        turns_used = sum(turn.by_policy for turn in self.turns)
        last = self.draw.domain.respond is None or turns_used >= self.draw.domain.max_turns
        if completion.stop != "stop" or last:
            self.stop = completion.stop

    def reply(self, messages: tuple[Message, ...] | None, chat: Chat) -> None:
        """Append the domain's answer to the last turn; None, or a full context, ends the episode."""
        if messages is None:
            self.stop = "stop"
            return
        tokens = chat.reply(messages)
        if sum(len(turn.tokens) for turn in self.turns) + len(tokens) >= self.context:
            self.stop = "context"
            return
        self.turns.append(observed(messages, tokens))

    def trajectory(self) -> Trajectory:
        """Return the attempt as sampled so far."""
        stop: Stop = self.stop or "stop"
        return Trajectory(self.draw.task, tuple(self.turns), stop, self.sampling.temperature)


def observed(messages: tuple[Message, ...], tokens: tuple[int, ...]) -> Turn:
    """Return the turn in which a domain answers; several messages are recorded as the last with all texts."""
    said = "\n".join(message.content for message in messages)
    return Turn(replace(messages[-1], content=said), tokens)
