"""Tasks from the doctests of packages, as `posttrain mine` has written and proven them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from posttrain.config.wording import Place
from posttrain.domains.code_judge import LIMITS, judge_problem
from posttrain.domains.code_prompt import INSTRUCTION, prompt_of
from posttrain.domains.mined_rows import LEVELS, Mined, read
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError
from posttrain.protocols import Sandbox
from posttrain.rewards.code import CodeReward, extract_code
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

NOWHERE = Place("", "")


def mined(
    path: str,
    *,
    name: str = "mined",
    instruction: str = INSTRUCTION,
    reward: CodeReward = CodeReward(),
    cpu_seconds: float = LIMITS.cpu_seconds,
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of the mined functions in the directory `path`, from easy levels to hard ones.

    The prompt shows the visible examples, hidden cases judge; see `posttrain mine`. A level that lacks
    problems of either split is joined with the next. Raises InputError for a directory that cannot be read,
    ConfigError for one without problems to hold out.
    """
    folder = _folder(path, place)
    levels = _levels(read(folder), folder)
    limits = replace(LIMITS, cpu_seconds=cpu_seconds)

    def task(split: Split, level: int, index: int) -> Task:
        some = levels[level][split]
        problem = some[index % len(some)]
        question = Message("user", prompt_of(problem, instruction))
        return Task(f"{name}/{split}/{problem.name}", name, level, (question,), problem.reference())

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        problem = Problem.of(trajectory.task)
        return await judge_problem(problem, extract_code(trajectory.answer), sandbox, reward, limits)

    def size(split: Split, level: int) -> int:
        return len(levels[level][split])

    return Domain(name, size, task, verify, levels=len(levels))


def _folder(path: str, place: Place) -> Path:
    """Return the directory: from the configuration's folder, else from the working directory."""
    beside = [Path(place.source).resolve().parent] if place.source else []
    tried = [folder / Path(path).expanduser() for folder in (*beside, Path.cwd())]
    return next((found for found in tried if found.is_dir()), Path(path))


def _levels(problems: Sequence[Mined], folder: Path) -> list[dict[Split, list[Problem]]]:
    """Return the problems of both splits by level; no split of a level is empty."""
    found: list[dict[Split, list[Problem]]] = []
    current: dict[Split, list[Problem]] = {"train": [], "eval": []}
    for level in range(LEVELS):
        for each in problems:
            if each.level == level:
                current[each.split].append(each.problem)
        if all(current.values()):
            found.append(current)
            current = {"train": [], "eval": []}
    if not found:
        missing = " and ".join(split for split, some in current.items() if not some)
        raise ConfigError(
            f"{folder}: of its {len(problems)} problems none is for {missing}",
            key="path",
            hint="Mine a package with more functions.",
        )
    for split, rest in current.items():
        found[-1][split] += rest
    return found
