"""The domain contract on our domains, on the example, and on domains that break each rule."""

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from posttrain.contracts.domain import check_domain, inspect_domain
from posttrain.domains.generated import generated
from posttrain.domains.sets import NO_GOLD, SOUND
from posttrain.protocols import Sandbox
from posttrain.types import Domain, Message, Reward, Split, Task, TaskFunction, Trajectory

ROOT = Path(__file__).parents[2]
SAMPLE = (
    "acre", "calendar_arithmetic", "chain_sum", "countdown", "family_relationships", "gcd", "knights_knaves",
    "letter_counting", "list_functions", "number_sequence", "spell_backward", "survo", "tower_of_hanoi",
)  # fmt: skip
VERY_SLOW = ("knight_swap", "futoshiki", "zebra_puzzles")  # up to seconds for one task


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_sound_sets_keeps_the_contract(name: str) -> None:
    assert check_domain(generated(name), num_tasks=4, levels=(0,)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SOUND, *NO_GOLD])
def test_every_sound_set_keeps_the_contract_at_its_easiest_level(name: str) -> None:
    assert check_domain(generated(name), num_tasks=1 if name in VERY_SLOW else 6, levels=(0,)) == []


def example() -> Domain:
    path = ROOT / "examples" / "own_domain.py"
    spec = importlib.util.spec_from_file_location("own_domain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    domain: Domain = module.reverse
    return domain


def test_the_example_keeps_the_contract_in_at_most_20_lines() -> None:
    assert check_domain(example()) == []
    lines = [line for line in (ROOT / "examples" / "own_domain.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 20


def test_the_how_to_page_shows_the_example_as_it_is() -> None:
    page = (ROOT / "docs" / "how-to" / "own_domain.md").read_text()
    assert (ROOT / "examples" / "own_domain.py").read_text().split('"""\n', 1)[1].strip() in page


def task(split: Split, level: int, index: int) -> Task:
    return Task(
        f"{split}/{index}", "toy", level, (Message("user", f"{split} {index}?"),), {"answer": str(index)}
    )


async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return Reward(float(trajectory.answer == trajectory.task.reference["answer"]))


async def generous(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return Reward(1.0)


async def stern(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return Reward(float("nan"))


TOY = Domain("toy", lambda split, level: None, task, verify)
COUNTER = iter(range(1_000_000))


def revealing(split: Split, level: int, index: int) -> Task:
    made = task(split, level, index)
    return replace(made, prompt=(Message("user", f"{split} {index}? The answer is {index}."),))


def quoting(split: Split, level: int, index: int) -> Task:
    tests = f"assert f({index}) == {index} and g({split!r})"
    made = task(split, level, index)
    return replace(
        made, prompt=(Message("user", f"Make this pass: {tests}"),), reference={"hidden_tests": tests}
    )


def ending(split: Split, level: int, index: int) -> Task:
    return [task(split, level, i) for i in range(9)][index]


def hanging(split: Split, level: int, index: int) -> Task:
    threading.Event().wait(2)
    return task(split, level, index)


async def falling_over(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return Reward(float(int(trajectory.answer) == int(trajectory.task.reference["answer"])))


async def moody(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return Reward(-float(next(COUNTER)))


async def blocking(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    time.sleep(0.7)
    return await verify(trajectory, sandbox, files)


async def waiting(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    await asyncio.sleep(0.7 if trajectory.answer == "no" else 0)
    return await verify(trajectory, sandbox, files)


async def endless(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    await asyncio.Event().wait()
    return Reward(0.0)


async def chatty(trajectory: Trajectory, session: object) -> tuple[Message, ...]:
    return "next"  # type: ignore[return-value]


async def by_number(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
    return 1.0  # type: ignore[return-value]


BROKEN = {
    "task is pure": replace(TOY, task=lambda s, lv, i: replace(task(s, lv, i), level=next(COUNTER))),
    "splits are disjoint": replace(TOY, task=lambda s, lv, i: task("train", lv, i)),
    "gold answer succeeds": replace(TOY, success=2.0),
    "wrong answer fails": replace(TOY, verify=generous),
    "reward is finite": replace(TOY, verify=stern),
    "prompt is not empty": replace(TOY, task=lambda s, lv, i: replace(task(s, lv, i), prompt=())),
    "task is plain JSON": replace(
        TOY, task=lambda s, lv, i: replace(task(s, lv, i), reference={"answer": {1}})
    ),
    "task names its domain": replace(TOY, name="other"),
    "has tasks": replace(TOY, size=lambda split, level: 0),
    "size can be called": replace(TOY, size=lambda split: None),  # type: ignore[arg-type, misc]
    "task can be called": replace(TOY, task=hanging),
    "task is a Task": replace(TOY, task=lambda s, lv, i: {"id": i}),  # type: ignore[arg-type, return-value]
    "ids tell tasks apart": replace(TOY, task=lambda s, lv, i: replace(task(s, lv, i), id=s)),
    "tasks never run out": replace(TOY, size=lambda split, level: 9, task=ending),
    "prompts keep the answer back": replace(TOY, task=revealing),
    "verify raises nothing": replace(TOY, verify=falling_over),
    "equal attempts get equal rewards": replace(TOY, verify=moody),
    "verify leaves the loop free": replace(TOY, verify=blocking),
    "verify keeps its deadline": replace(TOY, verify=endless),
    "respond gives messages or None": replace(TOY, respond=chatty),
    "max_turns is positive": replace(TOY, respond=chatty, max_turns=0),
}


def test_a_sound_toy_has_no_findings() -> None:
    assert check_domain(TOY) == []


@pytest.mark.parametrize("rule", [rule for rule in BROKEN if rule != "prompt is not empty"])
def test_each_rule_is_found_broken(rule: str) -> None:
    found = check_domain(BROKEN[rule], num_tasks=3, wrong_answers=("", "no"), deadline_seconds=0.8)
    assert rule in {finding.rule for finding in found}
    assert all(finding.detail for finding in found)


def test_every_rule_has_a_domain_that_breaks_it() -> None:
    rules = asyncio.run(inspect_domain(replace(TOY, respond=chatty), num_tasks=2))
    assert {outcome.rule for outcome in rules.outcomes} == BROKEN.keys()


@pytest.mark.parametrize("make", [revealing, quoting])
def test_a_prompt_that_holds_the_answer_or_the_hidden_tests_is_found(make: TaskFunction) -> None:
    rules = [finding.rule for finding in check_domain(replace(TOY, task=make, success=9.0), num_tasks=3)]
    assert "prompts keep the answer back" in rules


def test_a_short_answer_that_a_prompt_offers_as_a_choice_is_no_leak() -> None:
    def offering(split: Split, level: int, index: int) -> Task:
        prompt = (Message("user", f"{split} {index}: is {index} or {index + 1} the answer?"),)
        return replace(task(split, level, index), prompt=prompt)

    assert check_domain(replace(TOY, task=offering), num_tasks=3) == []


def test_a_verifier_that_awaits_does_not_block() -> None:
    domain = replace(TOY, verify=waiting, size=lambda split, level: 1)
    assert check_domain(domain, num_tasks=1, wrong_answers=("no",)) == []


def test_a_domain_that_says_so_may_judge_differently_each_time() -> None:
    rules = asyncio.run(inspect_domain(replace(TOY, verify=moody, deterministic=False), num_tasks=2))
    (outcome,) = [o for o in rules.outcomes if o.rule == "equal attempts get equal rewards"]
    assert outcome.status == "skipped"


def test_a_hanging_verifier_is_not_asked_for_every_answer() -> None:
    (finding,) = check_domain(replace(TOY, verify=endless), num_tasks=8, deadline_seconds=0.1)
    assert "none within 0.1 s" in finding.detail


def test_a_verdict_that_is_no_reward_is_named() -> None:
    (first, *_) = check_domain(replace(TOY, verify=by_number), num_tasks=1)
    assert first.rule == "reward is finite"
    assert "gave float, not a posttrain.Reward" in first.detail


def test_an_empty_prompt_is_found() -> None:
    assert "prompt is not empty" in {
        finding.rule for finding in check_domain(BROKEN["prompt is not empty"], num_tasks=1)
    }


def test_tasks_do_not_depend_on_the_process() -> None:
    code = (
        "from posttrain.domains.generated import generated\n"
        "for name in ('chain_sum', 'acre', 'list_functions', 'family_relationships', 'number_filtering'):\n"
        "    print([generated(name).task(s, 0, i) for s in ('train', 'eval') for i in range(3)])\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert outputs[0] == outputs[1]
    assert "chain_sum/train/0/2" in outputs[0]
