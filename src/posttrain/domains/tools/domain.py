"""The `tools` domain: endless tasks in three worlds at five levels, made on the spot."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Ge, Lt

from posttrain.domains.extraction_words import Dice
from posttrain.domains.tools.calendar import CALENDAR
from posttrain.domains.tools.files import FILES
from posttrain.domains.tools.replay import knowledge, replayed
from posttrain.domains.tools.scenario import Scenario, Step, World
from posttrain.domains.tools.shop import SHOP
from posttrain.domains.tools.tool import Tool, called
from posttrain.domains.tools.verdict import judged
from posttrain.errors import ConfigError
from posttrain.protocols import Sandbox, Session
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

WORLDS: Mapping[str, World] = {world.name: world for world in (CALENDAR, SHOP, FILES)}
NUM_LEVELS = 5
_NUM_DRAWS = 64  # a fair split misses 64 times in a row with probability 2**-64


def tools(
    world: str = "all",
    *,
    name: str = "tools",
    partial: Annotated[float, Ge(0.0), Lt(1.0)] = 0.25,
    by_turn: bool = False,
    max_turns: int = 8,
) -> Domain:
    """Return a domain of endless tasks in a world (calendar, shop, files, or all of them in turn).

    Levels: 0 one call; 1 the right one of three tools, or a look-up; 2 a look-up first; 3 something to ask
    the user, rules; 4 all of it, several changes. The reward is 1.0 where every required change was made and
    no other, and the final answer tells every required fact; else `partial` times the shares of both.
    `by_turn` adds process rewards: what each turn brought the state nearer, times `partial`.
    """
    if world != "all" and world not in WORLDS:
        hint = f"Choose all or one of {', '.join(WORLDS)}."
        raise ConfigError(f"there is no world {world!r}", key="world", hint=hint)
    chosen = tuple(WORLDS.values()) if world == "all" else (WORLDS[world],)

    def task(split: Split, level: int, index: int) -> Task:
        own = chosen[index % len(chosen)]
        return _task(name, own, _draw(own, split, level, index), split, level, index)

    async def respond(trajectory: Trajectory, session: Session | None) -> tuple[Message, ...] | None:
        offered = _offered(trajectory.task)
        replay = replayed(trajectory, offered)  # the last turn is not answered yet
        return replay.take(trajectory.turns[-1].message, offered, knowledge(trajectory.task.setup))

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return judged(trajectory, replayed(trajectory, _offered(trajectory.task)), partial, by_turn)

    return Domain(
        name, lambda split, level: None, task, verify, respond, levels=NUM_LEVELS, max_turns=max_turns
    )


def _offered(task: Task) -> tuple[Tool, ...]:
    names = tuple(str(tool["function"]["name"]) for tool in task.tools)
    return WORLDS[task.setup["world"]].offered(names)


def _draw(world: World, split: Split, level: int, index: int) -> Scenario:
    """Return the first scenario of this index's own series whose prompt belongs to the split."""
    for attempt in range(_NUM_DRAWS):
        scenario = world.levels[level](Dice.keyed("tools", world.name, split, level, index, attempt))
        digest = hashlib.sha256(f"{scenario.rules}\n{scenario.request}".encode()).digest()
        if ("eval" if digest[0] & 1 else "train") == split:
            return scenario
    raise AssertionError(f"no request of {world.name}, level {level}, falls into {split}")


def _task(name: str, world: World, scenario: Scenario, split: Split, level: int, index: int) -> Task:
    rules = (Message("system", scenario.rules),) if scenario.rules else ()
    offered = world.offered(scenario.tools)
    reference = {
        "goal": _goal(scenario, offered),
        "facts": [{"value": fact.value, "others": list(fact.others)} for fact in scenario.facts],
        "demonstration": [_plain(step) for step in scenario.steps],
    }
    setup = {
        "world": world.name,
        "state": scenario.state,
        "knows": [{"words": list(known.words), "answer": known.answer} for known in scenario.knows],
    }
    prompt = (*rules, Message("user", scenario.request))
    schemas = tuple(tool.schema for tool in offered)
    return Task(
        f"{name}/{world.name}/{split}/{level}/{index}", name, level, prompt, reference, schemas, setup
    )


def _goal(scenario: Scenario, offered: tuple[Tool, ...]) -> dict[str, Any]:
    """Return the state that the demonstration leads to."""
    state = copy.deepcopy(scenario.state)
    for step in scenario.steps:
        for call in step.calls:
            called(state, offered, call)
    return state


def _plain(step: Step) -> dict[str, Any]:
    made = [{"name": call.name, "arguments": dict(call.arguments)} for call in step.calls]
    return {"content": step.said, "tool_calls": made} if made else {"content": step.said}
