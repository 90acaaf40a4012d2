"""Tool calls as chat templates' families write them: one parser and one writer for each.

Parsers take any text: what begins as a call but is none becomes a `ToolCall` with a `problem`, at most
`MAX_CALLS` calls come out of a turn, and turns beyond `MAX_CHARACTERS` are not looked into.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from posttrain.chat.call_json import Malformed, call_of, past_white, value_at
from posttrain.types import JSON, ToolCall

MAX_CALLS = 16
MAX_CHARACTERS = 20_000

Blocks = Iterator["tuple[int, int, list[ToolCall]]"]
"""Where a block of calls starts and ends in a text, and what it holds."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a turn says: its calls in order, and the text that stands outside of them."""

    calls: tuple[ToolCall, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Syntax:
    """How one family of chat templates writes calls.

    `hint` shows the policy the form, where its template does not. `marks` in a template's text tell the
    family.
    """

    name: str
    marks: tuple[str, ...]
    hint: str
    find: Callable[[str], Blocks]
    write: Callable[[Sequence[ToolCall]], str]

    def read(self, text: str) -> Written:
        """Return the calls in a turn's text, numbered 0, 1, … in `id`, and the text outside of them."""
        if len(text) > MAX_CHARACTERS:
            problem = f"the turn is longer than {MAX_CHARACTERS} characters"
            return Written((ToolCall("0", "", {}, problem),), "")
        calls: list[ToolCall] = []
        outside, last = [], 0
        for start, end, found in self.find(text):
            outside.append(text[last:start])
            last = end
            calls += found
            if len(calls) > MAX_CALLS:
                spare = ToolCall("", "", {}, f"only the first {MAX_CALLS} calls of a turn are looked at")
                calls, last = [*calls[:MAX_CALLS], spare], len(text)
                break
        outside.append(text[last:])
        numbered = tuple(replace(call, id=str(number)) for number, call in enumerate(calls))
        return Written(numbered, "".join(outside).strip())


def syntax_of(template: str) -> Syntax:
    """Return the syntax of a chat template's family by the marks in it, else the plain one."""
    for syntax in SYNTAXES.values():
        if any(mark in template for mark in syntax.marks):
            return syntax
    return SYNTAXES["plain"]


def describe(tools: Sequence[Mapping[str, Any]], syntax: Syntax) -> str:
    """Return a short text that tells the policy its tools, for templates that do not render them."""
    lines = ["Tools:", *(_signature(tool["function"]) for tool in tools)]
    return "\n".join([*lines, f"To call one, write {syntax.hint}"])


def _signature(function: Mapping[str, Any]) -> str:
    parameters = function.get("parameters", {})
    required = parameters.get("required", ())
    fields = [
        f"{name}{'' if name in required else '?'}: {_kind(schema)}"
        for name, schema in parameters.get("properties", {}).items()
    ]
    about = function.get("description", "")
    return f"{function['name']}({', '.join(fields)})" + (f" - {about}" if about else "")


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a parameter's type in a few letters; schemas that say more than that stand in full."""
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    about = schema.get("description")
    if set(schema) <= {"type", "description", "pattern", "minimum", "maximum"}:
        return f"{schema.get('type', 'any')}" + (f" ({about})" if about else "")
    return json.dumps(schema, ensure_ascii=False)


# --- parsers ---------------------------------------------------------------------------------------------


def _broken(error: Malformed) -> list[ToolCall]:
    return [ToolCall("", "", {}, str(error))]


def _calls_of(value: JSON) -> list[ToolCall]:
    """Return the call that a value describes, or the calls of a list; each may be broken alone."""
    found: list[ToolCall] = []
    for item in value if isinstance(value, list) else [value]:
        try:
            found.append(call_of(item))
        except Malformed as error:
            found += _broken(error)
        if len(found) > MAX_CALLS:
            break
    return found


def _tagged(text: str) -> Blocks:
    """Find <tool_call>…</tool_call> around an object or a list of them."""
    opening, closing, place = "<tool_call>", "</tool_call>", 0
    while (start := text.find(opening, place)) >= 0:
        inside = start + len(opening)
        try:
            value, end = value_at(text, inside)
            end = past_white(text, end)
            if not text.startswith(closing, end):
                raise Malformed(f"{closing} is missing")
            place = end + len(closing)
            calls = _calls_of(value)
        except Malformed as error:
            calls = _broken(error)
            ends = [found for mark in (closing, opening) if (found := text.find(mark, inside)) >= 0]
            place = min(ends, default=len(text))
            place += len(closing) if text.startswith(closing, place) else 0
        yield start, place, calls


def _bare(text: str) -> Blocks:
    """Find Llama's form: nothing but objects with a name, a semicolon between them, or after its mark."""
    mark = "<|python_tag|>"
    start = text.find(mark)
    marked = start >= 0
    place = past_white(text, start + len(mark) if marked else 0)
    if not marked and not text.startswith("{", place):
        return
    calls: list[ToolCall] = []
    try:
        while place < len(text) and len(calls) <= MAX_CALLS:
            value, place = value_at(text, place)
            if not marked and not calls and not (isinstance(value, dict) and "name" in value):
                return  # an answer in JSON
            calls += _calls_of(value)
            place = past_white(text, place)
            place = past_white(text, place + text.startswith(";", place))
    except Malformed as error:
        calls += _broken(error)
    yield max(start, 0), len(text), calls


def _bracketed(text: str) -> Blocks:
    """Find Mistral's forms: [TOOL_CALLS] before a list of objects, or before name[ARGS]{…}, repeated."""
    mark, place = "[TOOL_CALLS]", 0
    while (start := text.find(mark, place)) >= 0:
        inside = past_white(text, start + len(mark))
        try:
            named = re.compile(r"([\w.-]{1,64})\[ARGS\]").match(text, inside)
            value, place = value_at(text, named.end() if named else inside)
            calls = _calls_of({"name": named[1], "arguments": value} if named else value)
        except Malformed as error:
            calls = _broken(error)
            following = text.find(mark, inside)
            place = following if following >= 0 else len(text)
        yield start, place, calls


_LINE = re.compile(r"^call ([\w.-]{1,64})[ \t]*", re.MULTILINE)


def _lines(text: str) -> Blocks:
    """Find the plain form: lines that begin with `call NAME {…}`."""
    place = 0
    while (found := _LINE.search(text, place)) is not None:
        try:
            value, place = value_at(text, found.end())
            calls = _calls_of({"name": found[1], "arguments": value})
        except Malformed as error:
            calls = _broken(error)
            end = text.find("\n", found.end())
            place = end if end >= 0 else len(text)
        yield found.start(), place, calls


# --- writers ---------------------------------------------------------------------------------------------


def _json(call: ToolCall, key: str = "arguments") -> str:
    return json.dumps({"name": call.name, key: dict(call.arguments)}, ensure_ascii=False)


def _listed(calls: Sequence[ToolCall]) -> str:
    return f"[{', '.join(_json(call) for call in calls)}]"


SYNTAXES: Mapping[str, Syntax] = MappingProxyType({
    syntax.name: syntax
    for syntax in (
        Syntax(
            "mistral", ("[TOOL_CALLS]",), '[TOOL_CALLS] [{"name": ..., "arguments": {...}}]', _bracketed,
            lambda calls: f"[TOOL_CALLS] {_listed(calls)}",
        ),
        Syntax(
            "llama", ("<|python_tag|>", "ipython", "<|start_header_id|>"),
            '{"name": ..., "parameters": {...}}', _bare,
            lambda calls: "; ".join(_json(call, "parameters") for call in calls),
        ),
        Syntax(
            "hermes", ("<tool_call>",),
            '<tool_call>{"name": ..., "arguments": {...}}</tool_call>', _tagged,
            lambda calls: "\n".join(f"<tool_call>\n{_json(call)}\n</tool_call>" for call in calls),
        ),
        Syntax(
            "smollm2", ("named SmolLM",),
            '<tool_call>[{"name": ..., "arguments": {...}}]</tool_call>', _tagged,
            lambda calls: f"<tool_call>{_listed(calls)}</tool_call>",
        ),
        Syntax(
            "plain", (), "a line: call NAME {...}", _lines,
            lambda calls: "\n".join(
                f"call {call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}" for call in calls
            ),
        ),
    )
})  # fmt: skip
"""Family → its syntax, in the order in which a template's text is searched for their marks."""
