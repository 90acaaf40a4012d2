"""One piece of work in a world: its state, what is asked, what the user knows, and one way to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posttrain.domains.extraction_words import Dice
from posttrain.domains.tools.tool import State, Tool
from posttrain.types import ToolCall


@dataclass(frozen=True, slots=True)
class Fact:
    """What the final answer must say: `value`, and none of the `others` that it could be mistaken for."""

    value: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What the user answers to a question in which one of the `words` stands."""

    words: tuple[str, ...]
    answer: str


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of a demonstration: calls, or something said to the user."""

    calls: tuple[ToolCall, ...] = ()
    said: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`steps` are one right way; the goal is the state they lead to, however it is reached."""

    request: str
    state: State
    tools: tuple[str, ...]
    steps: tuple[Step, ...]
    facts: tuple[Fact, ...] = ()
    knows: tuple[Known, ...] = ()
    rules: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """An API and what can be asked of it: one maker of scenarios for each level."""

    name: str
    tools: tuple[Tool, ...]
    levels: tuple[Callable[[Dice], Scenario], ...] = field(default=())

    def offered(self, names: tuple[str, ...]) -> tuple[Tool, ...]:
        """Return the tools of these names, in their order."""
        known: Mapping[str, Tool] = {tool.name: tool for tool in self.tools}
        return tuple(known[name] for name in names)


def call(name: str, /, **arguments: Any) -> Step:
    """Return a step of one call."""
    return Step((ToolCall("", name, arguments),))


def calls(*steps: Step) -> Step:
    """Return the calls of several steps as one step, made in parallel."""
    return Step(tuple(each for step in steps for each in step.calls))


def say(said: str) -> Step:
    """Return a step in which the policy speaks to the user."""
    return Step(said=said)
