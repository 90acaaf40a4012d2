"""Reading JSON strictly, and schemas that reach nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from posttrain.contracts.hostile import HOSTILE_ANSWERS
from posttrain.errors import InputError
from posttrain.rewards.schema import MAX_CHARACTERS, MAX_DEPTH, Reading, read_json, violations


@pytest.mark.parametrize("value", [{}, [], None, True, 0, -1.5, "ä", {"a": [1, {"b": None}]}, 10**30])
def test_what_json_writes_is_read_back(value: Any) -> None:
    assert read_json(f"\n {json.dumps(value)}\t") == Reading(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"), (" \n", "empty"), ("{", "not JSON"), ("nope", "not JSON"), ("{} {}", "not JSON"),
        ("[Infinity]", "not a finite number"), ("-1e400", "not a finite number"),
        ('{"a": {"b": 1, "b": 1}}', "duplicate key"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "too deep"),
        ("9" * 5_000, "not JSON"), (" " * (MAX_CHARACTERS + 1), "too long"),
    ],
)  # fmt: skip
def test_what_is_not_plain_json_says_why(text: str, problem: str) -> None:
    assert read_json(text).problem == problem


def test_nesting_is_allowed_up_to_the_bound() -> None:
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH).problem == ""


@pytest.mark.parametrize("name", sorted(HOSTILE_ANSWERS))
def test_hostile_texts_are_read_or_refused_but_never_crash(name: str) -> None:
    assert isinstance(read_json(HOSTILE_ANSWERS[name], fence=True), Reading)


@pytest.mark.parametrize("text", ["```json\n{}\n```", "```\n{}\n```", " ```JSON\n {} \n``` "])
def test_one_fence_is_taken_off_on_request(text: str) -> None:
    assert read_json(text, fence=True) == Reading({})
    assert read_json(text).problem == "not JSON"


@pytest.mark.parametrize("text", ["```json\n{}\n``` done", "a ```json\n{}\n```", "```py\n{}\n```"])
def test_what_stands_around_a_fence_is_refused(text: str) -> None:
    assert read_json(text, fence=True).problem == "not JSON"


def test_violations_name_the_place() -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]}
    assert violations({"a": [1, "x"]}, schema) == (
        "$: 'b' is a required property",
        "$.a[1]: 'x' is not of type 'integer'",
    )
    assert violations({"a": [1], "b": None}, schema) == ()


@pytest.mark.parametrize(
    "schema", [{"type": "objekt"}, {"$ref": "https://example.invalid/schema.json"}, {"$ref": "#/nowhere"}]
)
def test_a_schema_that_is_wrong_or_leads_elsewhere_is_an_error_of_ours(schema: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="JSON schema"):
        violations({}, schema)
