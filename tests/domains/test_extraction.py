"""Extraction: gold earns 1, near-misses a share, hacks nothing, and no constant answer gets far."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import jsonschema
import pytest

from posttrain.contracts.domain import attempt, check_domain
from posttrain.domains.extraction import extraction, judged
from posttrain.domains.extraction_records import LEVELS
from posttrain.domains.extraction_words import Dice
from posttrain.errors import ConfigError
from posttrain.measures.constant import best_constant
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Reward, Task

ROOT = Path(__file__).parents[2]
DOMAIN = extraction()
EVERY_LEVEL = range(len(LEVELS))
PERSON = {
    "schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "value": {"name": "Ada Berg", "age": 41},
}


def tasks(level: int, count: int, split: Any = "train") -> list[Task]:
    return [DOMAIN.task(split, level, index) for index in range(count)]


def test_the_domain_contract_holds_at_every_level() -> None:
    assert check_domain(DOMAIN, num_tasks=4) == []


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_gold_records_keep_their_schema_and_earn_one(level: int) -> None:
    for task in tasks(level, 40):
        jsonschema.validate(task.reference["value"], task.reference["schema"])
        reward = judged(task.reference["answer"], task.reference)
        assert reward == Reward(1.0, {"parsed": 1.0, "valid": 1.0, "fields": 1.0})


async def test_the_verifier_reads_the_last_turn() -> None:
    task = DOMAIN.task("eval", 0, 3)
    reward = await DOMAIN.verify(attempt(task, str(task.reference["answer"])), ScriptedSandbox(), {})
    assert reward.value == 1.0


@pytest.mark.parametrize(
    ("answer", "value", "valid"),
    [
        ('{"age": 41, "name": "Ada  Berg"}', 1.0, 1.0),  # order and spaces are no fields
        ('{"name": "Ada Berg", "age": 42}', 0.5, 1.0),  # one of two is right
        ('{"name": "Ada", "age": 41.0}', 0.5, 1.0),  # 41.0 is the integer 41
        ('{"name": "Ada Berg"}', 0.25, 0.0),  # half, halved: `age` is required
        ('{"name": "Ada Berg", "age": "41"}', 0.25, 0.0),  # text is no integer
        ('{"name": "Ada Berg", "age": 41, "job": "x", "city": "y"}', 0.25, 0.0),  # 2 of 4, halved
        ("{}", 0.0, 0.0),
        ("[]", 0.0, 0.0),
        ('"Ada Berg"', 0.0, 0.0),
        ("41", 0.0, 0.0),
    ],
)
def test_near_misses_earn_what_hand_work_says(answer: str, value: float, valid: float) -> None:
    reward = judged(answer, PERSON)
    assert reward.value == pytest.approx(value, abs=1e-12)
    assert (reward.parts["parsed"], reward.parts["valid"]) == (1.0, valid)


GOLD = '{"name": "Ada Berg", "age": 41}'


@pytest.mark.parametrize(
    ("hack", "flags"),
    [
        ("", ()),
        (f"Here it is: {GOLD}", ()),
        (f"{GOLD} I hope this helps.", ()),
        (f"{GOLD}\n{GOLD}", ()),
        (f"```json\n{GOLD}\n```", ()),
        ('{"name": "Ada Berg", "age": 40, "age": 41}', ("duplicate key",)),
        ('{"name": "Ada Berg", "age": NaN}', ("not a finite number",)),
        ('{"name": "Ada Berg", "age": 1e999}', ("not a finite number",)),
        (GOLD + " " * 20_000, ("too long",)),
        ('{"name": "Ada Berg", "age": ' + "[" * 40 + "]" * 40 + "}", ("too deep",)),
        ("{'name': 'Ada Berg', 'age': 41}", ()),
        (GOLD.replace("41", "41,"), ()),
    ],
)
def test_hacks_earn_nothing_and_attacks_are_flagged(hack: str, flags: tuple[str, ...]) -> None:
    reward = judged(hack, PERSON)
    assert (reward.value, reward.parts["parsed"], reward.flags) == (0.0, 0.0, flags)


def test_a_dump_of_guesses_dilutes_the_right_one() -> None:
    guesses = {f"age{n}": n for n in range(98)} | PERSON["value"]  # type: ignore[operator]
    assert judged(json.dumps(guesses), PERSON).value == pytest.approx(0.5 * 2 / 100)


async def test_a_fence_is_taken_off_only_where_the_domain_says_so() -> None:
    task = DOMAIN.task("train", 0, 0)
    fenced = attempt(task, f"```json\n{task.reference['answer']}\n```")
    assert (await DOMAIN.verify(fenced, ScriptedSandbox(), {})).value == 0.0
    assert (await extraction(fence=True).verify(fenced, ScriptedSandbox(), {})).value == 1.0


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_the_best_constant_answer_scores_low(level: int) -> None:
    best = best_constant(
        tasks(level, 60), tasks(level, 60, "eval"), lambda task, answer: judged(answer, task.reference).value
    )
    assert best.interval.mean < 0.25
    solved = [
        judged(best.answer, task.reference).value >= DOMAIN.success for task in tasks(level, 60, "eval")
    ]
    assert mean(solved) <= 1 / 60


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_no_text_is_in_both_splits(level: int) -> None:
    train, held_out = ({task.prompt for task in tasks(level, 400, split)} for split in ("train", "eval"))
    assert not train & held_out
    assert min(len(train), len(held_out)) > 380


def test_levels_ask_for_more_and_more() -> None:
    def leaves(level: int) -> float:
        return mean(len(str(task.reference["answer"])) for task in tasks(level, 50))

    assert leaves(0) < leaves(1) < leaves(4) < leaves(6)
    optional = tasks(2, 40)
    assert len({tuple(task.reference["value"]) for task in optional}) > 4
    assert any(len(task.reference["value"]["items"]) == 4 for task in tasks(5, 40))


def test_the_easiest_answers_are_short() -> None:
    # A byte-level vocabulary of a small model needs about one token for two of these characters.
    assert max(len(str(task.reference["answer"])) for task in tasks(0, 500)) <= 48


def test_units_and_dates_are_normalised() -> None:
    seen = set()
    for task in tasks(3, 300):
        text, gold = task.prompt[0].content, task.reference["value"]
        if kilograms := re.search(r"weighs ([\d.]+) kg", text):
            assert gold["weight_grams"] == pytest.approx(float(kilograms[1]) * 1000)
        if euros := re.search(r"€(\d+)\.(\d\d)", text):
            assert gold["price_cents"] == 100 * int(euros[1]) + int(euros[2])
        if date := re.search(r"On (\d+) January (\d+) ", text):
            assert gold["date"] == f"{date[2]}-01-{int(date[1]):02}"
        seen |= {name for name, found in (("kg", kilograms), ("€", euros), ("date", date)) if found}
    assert seen == {"kg", "€", "date"}


def test_equal_keys_roll_equal_dice_in_every_process() -> None:
    code = "from posttrain.domains.extraction import extraction\nd = extraction()\n"
    code += "print([d.task(s, level, 7) for s in ('train', 'eval') for level in range(7)])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    assert repr(DOMAIN.task("train", 0, 7)) in outputs.pop()


def test_dice_give_every_choice_its_share() -> None:
    dice = Dice.keyed("shares")
    rolls = [dice.number(1, 4) for _ in range(4_000)]
    # Five standard deviations of a binomial count: 5 · sqrt(4000 · 1/4 · 3/4) = 137.
    assert all(abs(rolls.count(face) - 1_000) < 137 for face in (1, 2, 3, 4))
    assert sorted(Dice.keyed(1).some("abcde", 5)) == list("abcde")


def test_without_jsonschema_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(ConfigError, match=r"needs the package jsonschema.*pip install 'posttrain\[tasks\]'"):
        judged("{}", {"schema": {"type": "object", "title": "only here"}, "value": {}})
