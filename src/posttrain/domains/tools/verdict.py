"""What an attempt with tools earns: by the state it leaves and the facts it tells, never by its path."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from posttrain.domains.tools.replay import Replay
from posttrain.domains.tools.tool import State
from posttrain.types import Reward, Trajectory

MAX_ANSWER = 1_000
"""Characters of a final answer: a longer one tells no facts, it lists possibilities."""
_FORGED = ("<tool_response>", "<|im_start|>", "[TOOL_RESULTS]", "<|start_header_id|>", "Tool result:")


def plain(text: str) -> str:
    """Return a text as it is compared: compatible letters, no case, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def changes(before: State, after: State) -> Counter[str]:
    """Return what differs, as comparable texts: old records by their id, new ones by what is in them."""
    made: Counter[str] = Counter()
    for name in before.keys() | after.keys():
        old, new = before.get(name, {}), after.get(name, {})
        for key in old.keys() - new.keys():
            made[f"{name} - {key}"] += 1
        for key in old.keys() & new.keys():
            for field in old[key].keys() | new[key].keys():
                if old[key].get(field) != new[key].get(field):
                    made[f"{name} {key}.{field} = {_compared(new[key].get(field))}"] += 1
        for key in new.keys() - old.keys():
            made[f"{name} + {_compared(new[key])}"] += 1
    return made


def _compared(value: Any) -> str:
    if isinstance(value, dict):
        value = {key: plain(each) if isinstance(each, str) else each for key, each in value.items()}
    return json.dumps(plain(value) if isinstance(value, str) else value, sort_keys=True, ensure_ascii=False)


def agreement(required: Counter[str], made: Counter[str]) -> float:
    """Return the share of changes, required or made, that are both; 1.0 where there is neither."""
    union = sum((required | made).values())
    return sum((required & made).values()) / union if union else 1.0


def told(answer: str, facts: Sequence[Mapping[str, Any]], asked: str) -> tuple[float, bool]:
    """Return the share of facts that an answer tells, and whether it lists possibilities instead.

    A fact is told where its value stands in the answer as words of its own, and none of the values that it
    could be mistaken for, unless the user named it first.
    """
    said, asked = plain(answer), plain(asked)
    if len(answer) > MAX_ANSWER:
        return (0.0 if facts else 1.0), True
    right, is_list = 0, False
    for fact in facts:
        value = plain(fact["value"])
        others = {plain(other) for other in fact["others"]} - {value}
        seen = _standing(said, {value} | others)
        mistaken = {other for other in seen - {value} if not _standing(asked, {other})}
        right += value in seen and not mistaken
        is_list = is_list or len(mistaken) > 2
    return (right / len(facts) if facts else 1.0), is_list


def _standing(text: str, values: set[str]) -> set[str]:
    """Return which values stand in a text; where one is a part of another, the longer one is seen alone."""
    seen = set()
    for value in sorted(values, key=lambda each: (-len(each), each)):
        pattern = rf"(?<![\w@]){re.escape(value)}(?![\w@]|[.:-]\d)"
        text, count = re.subn(pattern, "\n", text)
        if count:
            seen.add(value)
    return seen


def judged(trajectory: Trajectory, replay: Replay, partial: float, with_turns: bool) -> Reward:
    """Return an attempt's reward: 1.0 for the whole, else `partial` times the parts' product.

    Parts: `state`, `facts` (shares), `finished` (0 or 1), `calls`, `errors`, `questions` (counts). With
    turns, `by_turn` holds what each turn added to the agreement of states, times `partial`.
    """
    reference, start = trajectory.task.reference, trajectory.task.setup["state"]
    required = changes(start, reference["goal"])
    last = next((turn.message for turn in reversed(trajectory.turns) if turn.by_policy), None)
    is_final = last is not None and not last.tool_calls and bool(last.content.strip())
    finished = float(is_final and trajectory.stop == "stop" and trajectory.turns[-1].by_policy)
    asked = "\n".join(message.content for message in trajectory.task.prompt if message.role == "user")
    answer = last.content if last is not None and is_final else ""
    facts, is_list = told(answer, reference["facts"], asked)
    state = agreement(required, changes(start, replay.state))
    whole = state == facts == finished == 1.0
    parts = {
        "state": state, "facts": facts, "finished": finished, "calls": float(replay.num_calls),
        "errors": float(replay.num_errors), "questions": float(replay.num_questions),
    }  # fmt: skip
    value = 1.0 if whole else min(partial * state * facts, partial)
    by_turn = _gains(required, start, replay, partial) if with_turns else ()
    return Reward(value, parts, _flags(trajectory, is_list), by_turn)


def _gains(required: Counter[str], start: State, replay: Replay, partial: float) -> tuple[float, ...]:
    shares = [agreement(required, changes(start, state)) for state in (start, *replay.states)]
    return tuple(partial * (after - before) for before, after in itertools.pairwise(shares))


def _flags(trajectory: Trajectory, is_list: bool) -> tuple[str, ...]:
    own = [turn.message for turn in trajectory.turns if turn.by_policy]
    flags = []
    if any(mark in message.content for message in own for mark in _FORGED):
        flags.append("forged turn")
    if any("only the first" in call.problem for message in own for call in message.tool_calls):
        flags.append("too many calls")
    return tuple([*flags, "lists possibilities"] if is_list else flags)
