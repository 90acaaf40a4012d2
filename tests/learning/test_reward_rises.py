"""Each algorithm lifts the tiny model's reward, from near chance to most attempts, on one thread."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

from posttrain.train.program import train_command

DOMAIN = '''
from posttrain.types import Domain, Message, Reward, Task

VOWELS = ("a", "e", "i", "o", "u")


def task(split, level, index):
    return Task(f"{split}-{index}", "vowels", level, (Message("user", f"{split} {index}"),), {})


async def verify(trajectory, sandbox, files):
    """Pay for a vowel in each of the two first places: chance is about one in seven for each."""
    return Reward(fmean_of(letter in VOWELS for letter in trajectory.answer[:2].ljust(2)))


def fmean_of(claims):
    claims = list(claims)
    return sum(claims) / len(claims)


vowels = Domain("vowels", lambda split, level: None, task, verify)
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
steps = 40
groups = 4
attempts = 8
checkpoint_every = 40
[[domains]]
use = "vowels_of_test:vowels"
"""


@pytest.mark.parametrize("algorithm", ["use=grpo", "use=dr_grpo", "use=rloo"])
@pytest.mark.parametrize("seed", [0, 1])
def test_reward_rises(tmp_path: Path, algorithm: str, seed: int) -> None:
    (tmp_path / "vowels_of_test.py").write_text(DOMAIN)
    config, run = tmp_path / "config.toml", tmp_path / "run"
    config.write_text(CONFIG)
    assert train_command(config, [f"algorithm.{algorithm}", f"run.seed={seed}"], run, None) == 0
    rewards = [json.loads(line)["reward_mean"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert fmean(rewards[:3]) < 0.4
    assert fmean(rewards[-5:]) > 0.8
