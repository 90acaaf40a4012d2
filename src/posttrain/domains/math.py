"""Mathematics with short answers, from rows or made on the spot, judged as mathematics and not as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from annotated_types import Gt

from posttrain.config.wording import Place
from posttrain.domains.math_made import LEVELS, made
from posttrain.domains.rows import NOWHERE, rows
from posttrain.protocols import Sandbox
from posttrain.rewards.math import LIMITS, judged
from posttrain.types import JSON, Domain, Message, Reward, Split, Task, Trajectory

INSTRUCTION = "Put the final answer in \\boxed{}."


def math(
    data: str | tuple[str, ...] = "",
    *,
    name: str = "math",
    prompt: str = "prompt",
    answer: str = "answer",
    level_column: str = "",
    levels: tuple[int | str, ...] = (),
    eval: str | tuple[str, ...] = (),
    eval_share: float = 0.1,
    subset: str = "",
    split: str = "train",
    eval_split: str = "",
    instruction: str = INSTRUCTION,
    cpu_seconds: Annotated[float, Gt(0)] = LIMITS.cpu_seconds,
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of mathematical questions whose final answers are compared by math-verify.

    Without `data`, endless tasks of six levels are made. Rows are read as `rows` reads them; `prompt` and
    `answer` are their columns. The `instruction` follows questions that are made; rows ask by themselves.
    `cpu_seconds` bounds one verdict. Raises ConfigError for settings, RowError or InputError for rows.
    """
    limits = replace(LIMITS, cpu_seconds=cpu_seconds)

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return await judged(trajectory.answer, _gold(trajectory.task, answer), sandbox, limits)

    if not data:
        return replace(_endless(name, instruction), verify=verify)
    read = rows(
        data,
        reward=f"exact:{answer}",
        name=name,
        prompt=prompt,
        level_column=level_column,
        levels=levels,
        eval=eval,
        eval_share=eval_share,
        subset=subset,
        split=split,
        eval_split=eval_split,
        place=place,
    )
    return replace(read, verify=verify)


def _endless(name: str, instruction: str) -> Domain:
    def task(split: Split, level: int, index: int) -> Task:
        question, gold = made(split, level, index)
        text = f"{question}\n{instruction}".strip()
        identity = f"{name}/{split}/{level}/{index}"
        return Task(
            identity, name, level, (Message("user", text),), {"answer": f"\\boxed{{{gold}}}", "gold": gold}
        )

    async def unset(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return await judged(trajectory.answer, str(trajectory.task.reference["gold"]), sandbox)

    return Domain(name, lambda split, level: None, task, unset, levels=len(LEVELS))


def _gold(task: Task, column: str) -> str:
    """Return the gold answer: that of a task made here, or of the row's column."""
    columns: JSON = task.reference.get("columns")
    gold = columns[column] if isinstance(columns, Mapping) else task.reference["gold"]
    return gold if isinstance(gold, str) else str(gold)
