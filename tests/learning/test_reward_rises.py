"""Each algorithm lifts the tiny model's reward, from near chance to most attempts, on one thread."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from posttrain.algorithms import ALGORITHMS
from posttrain.train.program import train_command

DOMAIN = '''
from posttrain.types import Domain, Message, Reward, Task

VOWELS = ("a", "e", "i", "o", "u")


def task(split, level, index):
    return Task(f"{split}-{index}", "vowels", level, (Message("user", f"{split} {index}"),), {})


async def verify(trajectory, sandbox, files):
    """Pay for a vowel in each of the two first places: chance is about one in seven for each."""
    return Reward(share(letter in VOWELS for letter in trajectory.answer[:2].ljust(2)))


def share(claims):
    claims = list(claims)
    return sum(claims) / len(claims)


vowels = Domain("vowels", lambda split, level: None, task, verify)
'''

PROCESS = '''
from posttrain.types import Domain, Message, Reward, Task


def task(split, level, index):
    return Task(f"{split}-{index}", "turns", level, (Message("user", f"{split} {index}"),), {})


async def respond(trajectory, session):
    turns = sum(turn.by_policy for turn in trajectory.turns)
    return (Message("user", "more"),) if turns == 1 else None


async def verify(trajectory, sandbox, files):
    """Pay for a vowel in the first turn and a digit in the second; the outcome is the same for all."""
    letters = [turn.message.content[:1] for turn in trajectory.turns if turn.by_policy]
    paid = zip(letters, ("aeiou", "0123456789"))
    return Reward(0.0, by_turn=tuple(float(letter in tuple(wanted)) for letter, wanted in paid))


turns = Domain("turns", lambda split, level: None, task, verify, respond=respond)
'''

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
lora = { rank = 8, alpha = 16.0 }
[sampling]
max_tokens = 3
[optimizer]
learning_rate = 1e-2
[run]
steps = 12
groups = 4
attempts = 8
checkpoint_every = 12
"""

SETTINGS = {
    "k3 in the loss": ["use=grpo", "kl=0.02"],
    "k2 in the loss": ["use=gspo", "kl=0.02", "divergence.estimate=k2"],
    "weighted k3 in the loss": ["use=dapo", "kl=0.02", "divergence.weighted=true"],
    "k1 in the reward": ["use=rloo", "kl=0.02", "divergence.estimate=k1", "divergence.place=reward"],
    "KL in each token's reward": ["use=reinforce_pp", "kl=0.02"],
    "a group baseline": ["use=reinforce_pp", "baseline=true"],
    "an entropy bonus": ["use=dr_grpo", "max_tokens=3", "entropy=0.01"],
    "sequence correction": ["use=grpo", "correction.level=sequence", "correction.mask_above=2.0"],
    "the shift mask": ["use=cispo", "correction.max_shift=0.2"],
    "overlong shaping": ["use=dapo", "overlong.max_tokens=6", "overlong.buffer=4"],
}
RL = sorted(ALGORITHMS.keys() - {"sft"})


def train(folder: Path, domain: str, algorithm: list[str], *overrides: str) -> Path:
    """Train on the one domain that `domain` defines, under its own name, and return the run folder."""
    name = domain.strip().splitlines()[-1].partition(" =")[0]
    (folder / f"{name}_of_test.py").write_text(domain)
    (folder / "config.toml").write_text(f'{CONFIG}[[domains]]\nuse = "{name}_of_test:{name}"\n')
    settings = [f"algorithm.{setting}" for setting in algorithm]
    run = folder / "run"
    assert train_command(folder / "config.toml", [*settings, *overrides], run, None) == 0
    return run


def rows(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def assert_rises(rewards: list[float]) -> None:
    assert fmean(rewards[:3]) < 0.4
    assert fmean(rewards[-5:]) > 0.8


@pytest.mark.parametrize("algorithm", RL)
@pytest.mark.parametrize("seed", [0, 1])
def test_reward_rises(tmp_path: Path, algorithm: str, seed: int) -> None:
    run = train(tmp_path, DOMAIN, [f"use={algorithm}"], f"run.seed={seed}")
    assert_rises([row["reward_mean"] for row in rows(run)])


@pytest.mark.parametrize("algorithm", ["cispo", "grpo", "gspo", "reinforce_pp"])
def test_reward_rises_with_several_updates_on_each_batch(tmp_path: Path, algorithm: str) -> None:
    overrides = ["learner.updates_per_batch=2", "optimizer.learning_rate=5e-3"]
    metrics = rows(train(tmp_path, DOMAIN, [f"use={algorithm}"], *overrides))
    assert_rises([row["reward_mean"] for row in metrics])
    clips = any(row["clip_share"] > 0 for row in metrics if not row["skipped"])
    assert clips is (algorithm != "cispo")  # which silences no token


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_reward_rises_with_each_setting(tmp_path: Path, settings: list[str]) -> None:
    run = train(tmp_path, DOMAIN, settings, "learner.updates_per_batch=2", "optimizer.learning_rate=5e-3")
    assert_rises([row["reward_mean"] for row in rows(run)])


@pytest.mark.parametrize("algorithm", ["grpo", "reinforce_pp"])
def test_process_rewards_teach_each_turn_where_outcomes_are_equal(tmp_path: Path, algorithm: str) -> None:
    run = train(tmp_path, PROCESS, [f"use={algorithm}", "turn_gamma=0.5"], "run.steps=25")
    groups = [path.read_text().splitlines() for path in sorted((run / "groups").glob("*.jsonl"))]
    earned = [
        fmean(
            fmean(attempt["reward"]["by_turn"]) for line in step for attempt in json.loads(line)["attempts"]
        )
        for step in groups
    ]
    assert_rises(earned)
