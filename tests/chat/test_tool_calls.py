"""Every family's calls are read as they are written, and no text makes a parser fail, hang or flood."""

from __future__ import annotations

import json

import pytest

from posttrain.chat.tool_calls import MAX_CALLS, SYNTAXES, describe, syntax_of
from posttrain.contracts.hostile import HOSTILE_ANSWERS, WRONG_ANSWERS
from posttrain.types import ToolCall

TWO = (ToolCall("", "add", {"a": 2, "b": "x}</tool_call>"}), ToolCall("", "stop", {}))
FORMS = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>',
    "smollm2": '<tool_call>[{"name": "add", "arguments": {"a": 2}}]</tool_call>',
    "llama": '{"name": "add", "parameters": {"a": 2}}',
    "mistral": '[TOOL_CALLS] [{"name": "add", "arguments": {"a": 2}}]',
    "plain": 'call add {"a": 2}',
}
OPENINGS = ("<tool_call>", "[TOOL_CALLS]", "[TOOL_CALLS]add[ARGS]", "<|python_tag|>", "call add ", "")


@pytest.mark.parametrize("name", SYNTAXES)
def test_what_a_family_writes_it_reads_back(name: str) -> None:
    syntax = SYNTAXES[name]
    written = syntax.read(syntax.write(TWO))
    assert [(c.name, c.arguments, c.problem) for c in written.calls] == [
        ("add", {"a": 2, "b": "x}</tool_call>"}, ""),
        ("stop", {}, ""),
    ]
    assert [c.id for c in written.calls] == ["0", "1"]
    assert written.text == ""
    assert syntax.write([ToolCall("", "add", {"a": 2})]) == FORMS[name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 2}"}</tool_call>'),
        ("hermes", '<tool_call>[{"name": "add", "parameters": {"a": 2}}]</tool_call>'),
        ("llama", '<|python_tag|>{"name": "add", "parameters": {"a": 2}}'),
        ("llama", ' {"name": "add", "arguments": {"a": 2}}\n'),
        ("mistral", '[TOOL_CALLS]add[ARGS]{"a": 2}'),
        ("plain", 'call add {"a": 2}'),
    ],
)
def test_other_forms_of_a_family_are_read(name: str, text: str) -> None:
    assert SYNTAXES[name].read(text).calls == (ToolCall("0", "add", {"a": 2}),)


def test_text_around_calls_is_kept_apart() -> None:
    written = SYNTAXES["hermes"].read("First " + FORMS["hermes"] + " then " + FORMS["hermes"])
    assert written.text == "First  then"
    assert len(written.calls) == 2
    assert SYNTAXES["mistral"].read("Yes: " + FORMS["mistral"]).text == "Yes:"
    assert SYNTAXES["llama"].read('{"answer": 5}').calls == (), "an answer in JSON is no call"


@pytest.mark.parametrize("name", SYNTAXES)
def test_words_are_no_calls(name: str) -> None:
    assert SYNTAXES[name].read("I call add later. {2}").calls == ()


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('{"name": "add", "arguments": {"a": 1, "a": 2}}', "a key stands twice"),
        ('{"name": "add", "arguments": {"a": NaN}}', "NaN is not JSON"),
        ('{"name": "add", "arguments": {"a": 1e999}}', "a number is too large"),
        ('{"name": "add", "arguments": {"a": "\\ud800"}}', "it holds half a character"),
        ('{"name": "add", "arguments": ' + '{"a":' * 20 + "1" + "}" * 20 + "}", "nested too deep"),
        ("[" * 9_000, "nested too deep"),
        ('{"name": "add", "arguments": {"a": ' + "9" * 5_000 + "}}", "not valid JSON"),
        ('{"name": 5, "arguments": {}}', '"name" must be the name of a tool'),
        ('{"name": "add", "arguments": [1]}', '"arguments" must be an object'),
        ('{"name": "add", "arguments": {}, "parameters": {}}', 'give either "arguments" or "parameters"'),
        ('"add"', 'a call must be an object with "name" and "arguments"'),
        ('{"name": "add"', "not valid JSON"),
    ],
)
def test_a_broken_call_says_what_is_wrong(inside: str, problem: str) -> None:
    (call,) = SYNTAXES["hermes"].read(f"<tool_call>{inside}</tool_call>").calls
    assert (call.name, dict(call.arguments), call.problem) == ("", {}, problem)


def test_a_broken_call_does_not_hide_the_next_one() -> None:
    text = "<tool_call>{oops</tool_call><tool_call>{oops" + FORMS["hermes"]
    assert [bool(call.problem) for call in SYNTAXES["hermes"].read(text).calls] == [True, True, False]


@pytest.mark.parametrize("name", SYNTAXES)
def test_thousands_of_calls_are_cut_with_a_word(name: str) -> None:
    short = SYNTAXES[name].write([ToolCall("", "f", {})])
    text = (short + ("; " if name == "llama" else "\n")) * (19_000 // (len(short) + 2))
    calls = SYNTAXES[name].read(text).calls
    assert len(calls) == MAX_CALLS + 1
    assert "only the first 16" in calls[-1].problem
    many = SYNTAXES[name].read(short * 20_000).calls
    assert [call.problem for call in many] == ["the turn is longer than 20000 characters"]


@pytest.mark.parametrize("name", SYNTAXES)
def test_hostile_text_gives_bounded_calls_that_json_can_hold(name: str) -> None:
    for opening in OPENINGS:
        for answer in (*WRONG_ANSWERS, *HOSTILE_ANSWERS.values(), opening * 1_000):
            for text in (opening + answer, opening + answer[:9_000]):
                written = SYNTAXES[name].read(text)
                assert len(written.calls) <= MAX_CALLS + 1
                json.dumps([dict(call.arguments) for call in written.calls], allow_nan=False)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ '[TOOL_CALLS] [' }}<|im_start|>", "mistral"),
        ("<|start_header_id|>ipython<|end_header_id|>", "llama"),
        ("<|im_start|>assistant\n<tool_call>", "hermes"),
        ("You are a helpful AI assistant named SmolLM, trained by Hugging Face", "smollm2"),
        ("{{ message.content }}", "plain"),
    ],
)
def test_the_family_is_seen_from_the_template(template: str, name: str) -> None:
    assert syntax_of(template).name == name


def test_tools_are_described_in_a_line_each() -> None:
    schema = {
        "type": "object",
        "required": ["day"],
        "properties": {
            "day": {"type": "string", "enum": ["Mon", "Tue"]},
            "time": {"type": "string", "pattern": "..", "description": "HH:MM"},
            "guests": {"type": "array", "items": {"type": "string"}},
        },
    }
    tool = {"function": {"name": "book", "description": "Book it.", "parameters": schema}}
    assert describe([tool], SYNTAXES["smollm2"]) == (
        'Tools:\nbook(day: "Mon"|"Tue", time?: string (HH:MM), '
        'guests?: {"type": "array", "items": {"type": "string"}}) - Book it.\n'
        'To call one, write <tool_call>[{"name": ..., "arguments": {...}}]</tool_call>'
    )
