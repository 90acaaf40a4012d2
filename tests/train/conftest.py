"""Small real runs: the tiny model on a domain that it can learn in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from posttrain.models.source import resolve

LETTERS = """
import threading

from posttrain.types import Domain, Message, Reward, Task


def size(split, level):
    return None


def task(split, level, index):
    gold = "abcd"[(index + (split == "eval")) % 4]
    prompt = (Message("user", f"{split} {index}"),)
    return Task(f"{split}-{index}", "letters", level, prompt, {"answer": gold})


async def verify(trajectory, sandbox, files):
    answer = trajectory.answer
    return Reward(float(answer[:1] in ("a", "e", "i", "o", "u")))


letters = Domain("letters", size, task, verify)


async def never(trajectory, sandbox, files):
    return Reward(0.0)


def question(split, level, index):
    return Task("t", "hopeless", level, (Message("user", "?"),), {})


hopeless = Domain("hopeless", size, question, never)
def raises(split, level, index):
    raise LookupError("no such table")


def leaves(split, level, index):
    raise SystemExit(0)


def elsewhere(split, level, index):
    return Task("t", "another", level, (Message("user", "?"),), {})


async def unjudging(trajectory, sandbox, files):
    raise ValueError("the gold file is missing")


raising = Domain("raising", size, raises, verify)
leaving = Domain("leaving", size, leaves, verify)
misnamed = Domain("misnamed", size, elsewhere, verify)
nothing = Domain("nothing", size, lambda s, l, i: None, verify)
promptless = Domain("promptless", size, lambda s, l, i: Task("t", "promptless", l, (), {}), verify)
def finite(split, level, index):
    return [task(split, level, i) for i in range(5)][index]


running_out = Domain("letters", lambda split, level: 5, finite, verify)
oddly_sized = Domain("oddly_sized", lambda split, level: "5", task, verify)
nameless = Domain("", size, task, verify)
unjudged = Domain("letters", size, task, unjudging)


def stuck_from_the_seventh(split, level, index):
    if index >= 6:
        threading.Event().wait(30)
    return task(split, level, index)


stuck = Domain("letters", size, stuck_from_the_seventh, verify)
empty = Domain("empty", lambda split, level: 0, task, verify)
long = Domain(
    "long", size, lambda s, l, i: Task("t", "long", l, (Message("user", "word " * 900),), {}), verify
)
"""

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
lora = { rank = 8, alpha = 16.0 }
[engine]
slots = 16
[sampling]
max_tokens = 3
[optimizer]
learning_rate = 5e-3
schedule = "cosine"
[run]
steps = 6
groups = 2
attempts = 6
checkpoint_every = 2
[sft]
steps = 2
demonstrations = 4
[evaluation]
tasks = 4
attempts = 2
[[domains]]
use = "letters_of_test:letters"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a config file of a run that takes about a second."""
    resolve("tiny")
    (tmp_path / "letters_of_test.py").write_text(LETTERS)
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path
