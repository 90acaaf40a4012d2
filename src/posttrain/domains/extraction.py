"""Endless extraction: JSON from a text against a schema, with credit for each field that is right.

Texts are made on the spot. Seven levels, each with one demand more: two fields, a choice in other words,
fields that the text leaves out, dates and units, nested objects, a list beside distracting sentences, all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from posttrain.domains.extraction_records import LEVELS, Record
from posttrain.domains.extraction_words import Dice
from posttrain.protocols import Sandbox
from posttrain.rewards.fields import agreement
from posttrain.rewards.schema import read_json, violations
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

INSTRUCTION = "Give only one JSON object for this schema. Leave out what the text does not say."
INVALID_SHARE = 0.5
"""What the fields of a value that breaks the schema are worth, beside those of one that keeps it."""
_NUM_DRAWS = 64  # a fair split misses 64 times in a row with probability 2**-64


def extraction(*, name: str = "extraction", instruction: str = INSTRUCTION, fence: bool = False) -> Domain:
    """Return a domain of endless extraction tasks at seven levels.

    The reward is the share of fields that agree with the gold record (one that nobody asked for counts as
    wrong), halved where the value breaks the schema; 1.0 only for the whole record. What is not JSON
    from its first to its last letter earns 0; with `fence`, one Markdown code fence may stand around it.
    """

    def task(split: Split, level: int, index: int) -> Task:
        record = _draw(split, level, index)
        question = f"{record.text}\n\n{instruction}\n{json.dumps(record.schema)}".strip()
        reference = {
            "answer": json.dumps(record.value, ensure_ascii=False),
            "value": dict(record.value),
            "schema": dict(record.schema),
        }
        identity = f"{name}/{split}/{level}/{index}"
        return Task(identity, name, level, (Message("user", question),), reference)

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return judged(trajectory.answer, trajectory.task.reference, fence=fence)

    return Domain(name, lambda split, level: None, task, verify, levels=len(LEVELS))


def judged(answer: str, reference: Mapping[str, object], *, fence: bool = False) -> Reward:
    """Return what an answer earns beside a reference with `value` and `schema`.

    Parts: `parsed` and `valid` (0 or 1), `fields` (the share that agrees).
    """
    reading = read_json(answer, fence=fence)
    if reading.problem:
        flags = (reading.problem,) if reading.is_suspicious else ()
        return Reward(0.0, {"parsed": 0.0, "valid": 0.0, "fields": 0.0}, flags)
    schema, gold = reference["schema"], reference["value"]
    assert isinstance(schema, Mapping)
    assert isinstance(gold, dict)
    valid = not violations(reading.value, schema)
    share = agreement(reading.value, gold).share
    value = share if valid else INVALID_SHARE * share
    return Reward(value, {"parsed": 1.0, "valid": float(valid), "fields": share})


def split_of(text: str) -> Split:
    """Return the split that a text belongs to: half of all texts each, by their hash."""
    return "eval" if hashlib.sha256(text.encode()).digest()[0] & 1 else "train"


def _draw(split: Split, level: int, index: int) -> Record:
    """Return the first record of this index's own series whose text belongs to the split."""
    for attempt in range(_NUM_DRAWS):
        record = LEVELS[level](Dice.keyed("extraction", split, level, index, attempt))
        if split_of(record.text) == split:
            return record
    raise AssertionError(f"no text of level {level} falls into {split}")
