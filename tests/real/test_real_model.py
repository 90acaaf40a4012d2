"""The pretrained model through the public commands: one step of warm-up and one of RL, and its bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.demo.program import CONFIG
from posttrain.train.program import sft_command, train_command

SMALL = [
    "sft.steps=1",
    "sft.demonstrations=4",
    "run.steps=1",
    "run.groups=2",
    "run.attempts=4",
    "engine.slots=8",
]

LONG = """
import dataclasses, resource, torch
from posttrain.algorithms.sft import SFT
from posttrain.batch import Batch
from posttrain.models.load import Model, load
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

model = load(Model(dtype="bfloat16"), seed=0)
policy = Policy(model, Learner(checkpointing=True), AdamW(), 1)
task = Task("t", "d", 0, (Message("user", "?"),), {})
prompt = Turn(task.prompt[0], tuple(range(5, 37)))
tokens = torch.randint(5, 40_000, (4, 2016), generator=torch.Generator().manual_seed(0)).tolist()
answers = [Turn(Message("assistant", "."), tuple(row), (0.0,) * len(row)) for row in tokens]
attempts = tuple(Trajectory(task, (prompt, answer), "length") for answer in answers)
batch = Batch.of([Group(0, task, attempts, (Reward(1.0),) * 4)])
stats = policy.update(dataclasses.replace(batch, advantages=SFT().advantages(batch)), SFT())
assert stats.num_tokens == 4 * 2016 and stats.num_steps == 1, stats
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_warm_up_and_rl_take_a_step_on_the_pretrained_model(tmp_path: Path) -> None:
    warm, run = tmp_path / "warm", tmp_path / "rl"
    # Only the domains with the shortest prompts: the step is real, the wait is short.
    assert sft_command(CONFIG, SMALL, warm) == 0
    (step,) = [json.loads(line) for line in (warm / "metrics.jsonl").read_text().splitlines()]
    assert 1.0 < step["loss"] < 8.0, "a pretrained model is far from uniform, an unadapted one far from sure"
    changes = [*SMALL, f"model.adapter={warm / 'adapter'}", "algorithm={use='sft'}"]
    assert train_command(CONFIG, changes, run, None) == 0
    (step,) = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert step["num_attempts"] == 8
    assert step["skipped"] is None
    assert step["mismatch_max"] < 1.0


@pytest.mark.slow
def test_four_attempts_of_2048_tokens_train_within_6_gib() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG], capture_output=True, text=True, check=True, timeout=1800
    )
    assert int(done.stdout.split()[-1]) < 6 * 2**30
