"""From the cells of a row to what a task needs: messages, a level, a gold answer; or what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from posttrain.domains.rows_read import Cells
from posttrain.errors import RowError
from posttrain.types import JSON, Message

ROLES = ("system", "user", "assistant", "tool")
NOT_COLUMNS = ("completion", "completion_ids")
"""Columns that reward functions get from the attempt; those of the data are left out, as TRL does."""


class Wrong(Protocol):
    """Makes the error for a row that is being looked at."""

    def __call__(self, problem: str, *, field: str, hint: str = "") -> RowError: ...


@dataclass(frozen=True, slots=True)
class Need:
    """A column, or a dotted path, that every row must fill; `problem` says what a value lacks, or ''."""

    path: str
    problem: Callable[[Any], str] = lambda value: ""


@dataclass(frozen=True, slots=True)
class Fields:
    """Which columns mean what; `needed` are those that reward functions cannot do without."""

    prompt: str
    level: str = ""
    demonstration: str = ""
    columns: tuple[str, ...] = ()
    needed: tuple[Need, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """Return the columns to read, or () for all of them."""
        own = (self.prompt, self.level, self.demonstration, *(n.path for n in self.needed))
        tops = (name.partition(".")[0] for name in own if name)
        return tuple(dict.fromkeys((*self.columns, *tops))) if self.columns else ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row understood: `columns` are its other cells, `is_chat` tells messages from plain text."""

    prompt: tuple[Message, ...]
    is_chat: bool
    columns: Mapping[str, JSON]
    answer: str | None
    level: int | str | None


def understood(cells: Cells, fields: Fields, wrong: Wrong) -> Row:
    """Return what a row says; raise the RowError that `wrong` makes of the first problem."""
    if fields.prompt not in cells:
        hint = f"It has: {', '.join(map(str, cells)) or 'nothing'}. Name the right column with `prompt`"
        raise wrong("is missing", field=fields.prompt, hint=hint)
    asked = cells[fields.prompt]
    prompt = _prompt(asked, fields.prompt, wrong)
    for need in fields.needed:
        value = value_at(cells, need.path)
        problem = "is missing or null" if value is None else need.problem(value)
        if problem:
            raise wrong(problem, field=need.path, hint="A reward function cannot do without it")
    kept = {
        name: value
        for name, value in cells.items()
        if name != fields.prompt and name not in NOT_COLUMNS and (not fields.columns or name in fields.read)
    }
    for name, value in kept.items():
        if problem := not_json(value):
            hint = "Leave it out: name the columns to keep with `columns`"
            raise wrong(problem, field=name, hint=hint)
    answer = _demonstration(cells, fields.demonstration, wrong) if fields.demonstration else None
    level = _level(cells, fields.level, wrong) if fields.level else None
    return Row(prompt, not isinstance(asked, str), kept, answer, level)


def value_at(cells: Mapping[str, Any], path: str) -> Any:
    """Return the cell of a column, or what stands within it for a dotted path; None where there is none.

    >>> value_at({"reward_model": {"ground_truth": "7"}}, "reward_model.ground_truth")
    '7'
    """
    if path in cells:
        return cells[path]
    found: Any = cells
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def not_json(value: object) -> str:
    """Say why JSON cannot hold a value, or ''."""
    if value is None or isinstance(value, bool | int | str):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{value} is no JSON number"
    if isinstance(value, list | tuple):
        return next(filter(None, map(not_json, value)), "")
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            return f"has the key {odd!r}, which is not text"
        return next(filter(None, map(not_json, value.values())), "")
    return f"holds a {type(value).__name__}, which JSON has no form for"


def _prompt(asked: object, field: str, wrong: Wrong) -> tuple[Message, ...]:
    if isinstance(asked, str):
        return (Message("user", _text(asked, field, wrong)),)
    if not isinstance(asked, Sequence) or not asked:
        hint = "A prompt is text, or a list of messages with role and content"
        raise wrong(f"holds {_shown(asked)}", field=field, hint=hint)
    messages = tuple(_message(each, f"{field}[{n}]", wrong) for n, each in enumerate(asked))
    if messages[-1].role == "assistant":
        hint = "Move the answer to a column of its own and name it with `demonstration`"
        raise wrong("ends with a message of the assistant", field=field, hint=hint)
    return messages


def _message(each: object, field: str, wrong: Wrong) -> Message:
    if not isinstance(each, Mapping):
        raise wrong(f"holds {_shown(each)}", field=field, hint="A message has a role and a content")
    role, content = each.get("role"), each.get("content")
    if role not in ROLES:
        raise wrong(f"is {_shown(role)}", field=f"{field}.role", hint=f"Known roles: {', '.join(ROLES)}")
    if each.get("tool_calls"):
        hint = "Write the calls into the content, or write a domain of your own"
        raise wrong("calls of tools are not read", field=f"{field}.tool_calls", hint=hint)
    if isinstance(content, list):
        content = _joined(content, f"{field}.content", wrong)
    if not isinstance(content, str):
        raise wrong(f"holds {_shown(content)}, not text", field=f"{field}.content")
    # A system message may be empty; a question may not.
    checked = content if role == "system" else _text(content, f"{field}.content", wrong)
    return Message(str(role), checked)


def _joined(parts: Sequence[object], field: str, wrong: Wrong) -> str:
    """Return the text of a content made of parts, as multimodal data sets write it."""
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    if len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise wrong("holds parts that are not text", field=field, hint="Images and sounds are not read")
    return "".join(map(str, texts))


def _text(text: str, field: str, wrong: Wrong) -> str:
    if not text.strip():
        raise wrong("is empty", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise wrong("has text that no encoding can hold (a lone surrogate)", field=field) from None
    return text


def _demonstration(cells: Cells, field: str, wrong: Wrong) -> str:
    """Return the gold answer: text, a number, or one message of the assistant."""
    found = value_at(cells, field)
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], Mapping):
        found = found[0].get("content")
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = str(found)
    if not isinstance(found, str):
        hint = "A demonstration is text or one message of the assistant"
        raise wrong(f"holds {_shown(found)}", field=field, hint=hint)
    return _text(found, field, wrong)


def _level(cells: Cells, field: str, wrong: Wrong) -> int | str:
    found = value_at(cells, field)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise wrong(f"holds {_shown(found)}", field=field, hint="A level is an integer or a word")
    return found


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
