"""A module of parts, sound and broken, in a folder from which `posttrain check` is run."""

from __future__ import annotations

from pathlib import Path

import pytest

PARTS = '''
import asyncio
from dataclasses import dataclass, replace

import torch

from posttrain import Domain, Message, Reward, Task
from posttrain.algorithms.grpo import GRPO
from posttrain.engines.scripted import Scripted
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.models.language_model import LanguageModel
from posttrain.protocols import Term
from posttrain.sandbox.scripted import ScriptedSandbox, compared, ran


def task(split, level, index):
    gold = str(3 * index + (split == "eval"))
    return Task(f"{split}/{index}", "sums", level, (Message("user", f"{split} {index}?"),), {"answer": gold})


async def verify(trajectory, sandbox, files):
    return Reward(float(trajectory.answer == trajectory.task.reference["answer"]))


async def generous(trajectory, sandbox, files):
    return Reward(1.0)


def late(trajectory, sandbox, files):
    return Reward(0.0)


async def unitwise(trajectory, sandbox, files):
    return Reward(float(trajectory.answer == "3 " + trajectory.task.reference["unit"]))


sums = Domain("sums", lambda split, level: None, task, verify)
gift = replace(sums, verify=generous)


def make(success: float = 1.0, levels: int = 1) -> Domain:
    return replace(sums, success=success, levels=levels)


def fails(path: str) -> Domain:
    raise RuntimeError(f"cannot open {path}")


class LocalMean:
    """Divides by what its own micro-batch holds."""

    needs = frozenset()

    def keeps(self, group):
        return GRPO().keeps(group)

    def advantages(self, batch):
        return GRPO().advantages(batch)

    def loss(self, outputs, batch):
        total = -(batch.advantages * outputs.logprobs * batch.mask).sum()
        return {"policy": Term(total / batch.num_scored, "constant")}


class Stale:
    """Samples from the weights that it was made with, whatever is loaded."""

    def __init__(self, model: LanguageModel, slots: int = 8) -> None:
        self.inner, self.version = TorchEngine(model, Torch(slots=slots)), 0

    async def generate(self, wave):
        completions = await self.inner.generate(wave)
        return [replace(completion, version=self.version) for completion in completions]

    async def load(self, weights, version):
        self.version = version


scripted = Scripted(lambda request: [5, 6, 7] * 2)


def permissive():
    good = [ran(b"42")] * 99
    return ScriptedSandbox(good, [compared("OK", "OK")] * 99)


class Half:
    def keeps(self, group): ...

    def advantages(self, batch): ...


def threefold(first, second, *, third):
    return 3


number = 3
'''

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
lora = { rank = 4, alpha = 8.0 }
[sampling]
max_tokens = 3
[[domains]]
use = "parts_of_test:sums"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder, made the working directory."""
    (tmp_path / "parts_of_test.py").write_text(PARTS)
    (tmp_path / "run.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path
