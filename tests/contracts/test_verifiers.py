"""The verifier contract: sound verifiers pass on hostile texts, each kind of fault is found."""

import asyncio
import json
import time

import pytest

from posttrain.contracts.outcome import Outcome
from posttrain.contracts.verifier import inspect_verifier
from posttrain.rewards.match import exact, extract_answer
from posttrain.types import Reward


async def matching(trajectory, sandbox, files):
    return Reward(exact(extract_answer(trajectory.answer), trajectory.task.reference["answer"]))


def synchronous(trajectory, sandbox, files):
    return Reward(1.0)


async def parsing(trajectory, sandbox, files):
    try:
        return Reward(float(json.loads(trajectory.answer) == 42))
    except ValueError:
        return Reward(0.0)


async def encoding(trajectory, sandbox, files):
    return Reward(float(trajectory.answer.encode() == b"42"))


async def infinite(trajectory, sandbox, files):
    return Reward(float("inf") if trajectory.answer == "inf" else 0.0)


async def blocking(trajectory, sandbox, files):
    if len(trajectory.answer) >= 1_000_000:
        time.sleep(0.7)
    return Reward(0.0)


async def timed(trajectory, sandbox, files):
    return Reward(time.perf_counter())


async def hanging(trajectory, sandbox, files):
    time.sleep(2)


async def turnwise(trajectory, sandbox, files):
    return Reward(0.0, by_turn=(0.0, 1.0))


def inspected(verify, **settings) -> dict[str, Outcome]:
    rules = asyncio.run(inspect_verifier(verify, **settings))
    return {outcome.rule: outcome for outcome in rules.outcomes}


def test_a_sound_verifier_passes_and_shows_what_the_gold_answer_earns():
    seen = inspected(matching)
    assert {outcome.status for outcome in seen.values()} == {"holds", "shown"}
    assert seen["gold answer earns"].value == 1.0


def test_the_reference_is_what_it_is_told():
    assert inspected(matching, reference={"answer": "7"})["gold answer earns"].value == 1.0
    lacking = inspected(matching, reference={"gold": "7"})
    assert "KeyError" in lacking["verify raises nothing"].evidence


@pytest.mark.parametrize(
    ("verify", "rule", "evidence"),
    [
        (synchronous, "verify is async", "async def"),
        (parsing, "verify raises nothing", "nested 100,000 deep: RecursionError"),
        (encoding, "verify raises nothing", "a lone surrogate: UnicodeEncodeError"),
        (infinite, "reward is finite", "infinity: gave a number that is not finite"),
        (blocking, "verify leaves the loop free", "a million letters: the event loop stood still"),
        (timed, "equal attempts get equal rewards", "then"),
        (turnwise, "reward is finite", "2 by_turn rewards for 1 turns"),
    ],
)
def test_each_fault_breaks_its_rule_and_names_the_answer(verify, rule, evidence):
    outcome = inspected(verify)[rule]
    assert outcome.status == "broken"
    assert evidence in outcome.evidence


def test_a_verifier_that_hangs_and_blocks_is_found_once_and_left():
    seen = inspected(hanging, deadline_seconds=0.2)
    assert seen["verify keeps its deadline"].status == "broken"
    assert seen["verify leaves the loop free"].status == "broken" or "0.2 s" in str(seen)
