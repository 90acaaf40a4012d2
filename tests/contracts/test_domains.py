"""The domain contract on our domains, on the example, and on domains that break each rule."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from posttrain.contracts.domain import check_domain
from posttrain.domains.generated import generated
from posttrain.domains.sets import NO_GOLD, SOUND
from posttrain.protocols import Sandbox
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

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
}


def test_a_sound_toy_has_no_findings() -> None:
    assert check_domain(TOY) == []


@pytest.mark.parametrize("rule", [rule for rule in BROKEN if rule != "prompt is not empty"])
def test_each_rule_is_found_broken(rule: str) -> None:
    assert rule in {finding.rule for finding in check_domain(BROKEN[rule], num_tasks=3)}


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
