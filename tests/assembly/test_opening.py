"""Opening a run: domains are made once, and an algorithm's own idea of a signal is respected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from posttrain import assembly
from posttrain.assembly.signal import finds_signal
from posttrain.errors import ConfigError
from posttrain.types import Message, Task

MODULE = """
from posttrain import Domain, Message, Reward, Task
from posttrain.algorithms.grpo import GRPO

MADE = []


def task(split, level, index):
    return Task(f"{split}-{index}", "counted", level, (Message("user", f"{split} {index}"),), {})


async def verify(trajectory, sandbox, files):
    return Reward(0.0)


def counted():
    MADE.append(1)
    return Domain("counted", lambda split, level: None, task, verify)


class Likes:
    needs = frozenset()

    def advantages(self, batch): ...

    def loss(self, outputs, batch): ...


class TurnLover(Likes):
    def keeps(self, group):
        return len({reward.by_turn[-1] for _, reward in group.judged}) > 1


class Reader(Likes):
    def keeps(self, group):
        written = [t.turns[-1].logprobs[0] for t, _ in group.judged]
        return len(written) > 1 and len(set(group.values)) > 1


class Faulty(Likes):
    def keeps(self, group):
        return group.no_such_thing


class Never(Likes):
    def keeps(self, group):
        return False
"""

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
lora = { rank = 2, alpha = 4.0 }
[algorithm]
use = "grpo"
[[domains]]
use = "counted_of_test:counted"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "counted_of_test.py").write_text(MODULE)
    path = tmp_path / "run.toml"
    path.write_text(CONFIG)
    return path


def opened(path: Path, *overrides: str) -> None:
    async def work() -> None:
        async with assembly.opened(assembly.read(path, overrides), str(path)):
            pass

    asyncio.run(work())


def test_domains_are_made_once(config: Path) -> None:
    opened(config)
    import counted_of_test

    counted_of_test.MADE.clear()
    opened(config)
    assert counted_of_test.MADE == [1]


@pytest.mark.parametrize("name", ["Reader", "TurnLover"])
def test_an_algorithm_that_looks_at_turns_or_what_was_written_is_taken(config: Path, name: str) -> None:
    # TurnLover indexes `by_turn`: fit for a domain that always gives it, and for no other.
    opened(config, f"algorithm.use=counted_of_test:{name}")


class ByTurn:
    needs = frozenset()

    def keeps(self, group) -> bool:
        return len({reward.by_turn for _, reward in group.judged}) > 1

    def advantages(self, batch): ...

    def loss(self, outputs, batch): ...


def test_a_signal_in_turns_alone_is_a_signal() -> None:
    task = Task("t", "d", 0, (Message("user", "?"),), {})
    assert finds_signal(ByTurn(), task, attempts=2)
    assert not finds_signal(ByTurn(), task, attempts=1)


def test_an_algorithm_that_raises_or_keeps_nothing_is_named(config: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"algorithm: Faulty.keeps raised AttributeError.*Mend the algorithm"
    ):
        opened(config, "algorithm.use=counted_of_test:Faulty")
    with pytest.raises(ConfigError, match=r"run.attempts: 8 attempt.* give Never nothing to compare"):
        opened(config, "algorithm.use=counted_of_test:Never")
