"""What a simulated API is made of: tools over a private JSON state, and one call of one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posttrain.rewards.schema import violations
from posttrain.types import JSON, ToolCall

State = dict[str, dict[str, Any]]
"""Collections of records: collection → id → record, all plain JSON."""

MAX_RESULT = 2_000
"""Characters of a result that the policy sees."""


class Refused(Exception):
    """A tool that does not do what it was asked to, and why."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function of an API; `run` changes the state it gets and returns JSON, or raises Refused."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Callable[..., JSON]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the tool in OpenAI's form; every parameter is required."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {name: dict(schema) for name, schema in self.parameters.items()},
                    "required": list(self.parameters),
                    "additionalProperties": False,
                },
            },
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call gave: the text that the policy sees, and whether it was an error."""

    text: str
    is_error: bool = False


def text(about: str = "") -> dict[str, Any]:
    """Return the schema of a text parameter."""
    return {"type": "string", "description": about} if about else {"type": "string"}


def called(state: State, tools: Sequence[Tool], call: ToolCall) -> Outcome:
    """Return what a call gives, with `state` changed by it; whatever is wrong is an error to read."""
    known = {tool.name: tool for tool in tools}
    if call.problem:
        return Outcome(f"error: malformed call: {call.problem}", True)
    if call.name not in known:
        return Outcome(f"error: there is no tool {call.name[:40]!r}. Tools: {', '.join(known)}", True)
    tool, arguments = known[call.name], dict(call.arguments)
    wrong = violations(arguments, tool.schema["function"]["parameters"])
    if wrong:
        return Outcome(f"error: {wrong[0]}", True)
    try:
        result = tool.run(state, **arguments)
    except Refused as refused:
        return Outcome(f"error: {refused}", True)
    said = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return Outcome(said[:MAX_RESULT])


def found(state: State, collection: str, key: str) -> dict[str, Any]:
    """Return a record; raise Refused where there is none of that name."""
    record = state[collection].get(key)
    if record is None:
        raise Refused(f"there is no {key[:40]!r}")
    assert isinstance(record, dict)
    return record
