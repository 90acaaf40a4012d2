"""Rows, and what attempts at them earn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from posttrain.contracts.domain import attempt
from posttrain.rollouts.boxes import Boxes
from posttrain.rollouts.judge import Deadlines, Quotas, judge
from posttrain.runtime.inline import Aside
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Reward, Task, Verdict

EXAMPLES = Path(__file__).parents[2] / "examples" / "rows"
ROWS = [
    {"prompt": f"What is {n} + 1?", "answer": str(n + 1), "kind": ("a", "b")[n % 2], "empty": None}
    for n in range(40)
]
CHAT_ROWS = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in ROWS]
VERL_ROWS = [
    {
        "data_source": "sums",
        "prompt": [{"role": "user", "content": str(row["prompt"])}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": row["answer"]},
        "extra_info": {"index": n},
    }
    for n, row in enumerate(ROWS)
]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first(domain: Domain, **cells: Any) -> Task:
    """Return the first training task whose row has these cells."""
    tasks = (domain.task("train", 0, n) for n in range(100))
    return next(t for t in tasks if all(t.reference["columns"].get(k) == v for k, v in cells.items()))


async def earned(domain: Domain, answer: str, task: Task | None = None) -> Reward:
    task = task or domain.task("train", 0, 0)
    return await domain.verify(attempt(task, answer), ScriptedSandbox(), {})


async def verdict(domain: Domain, answer: str, seconds: float = 30.0) -> Verdict:
    aside = Aside()
    try:
        tried = attempt(domain.task("train", 0, 0), answer)
        deadlines = Deadlines(seconds, retries=0)
        return await judge(domain, tried, Quotas(ScriptedSandbox(), aside, deadlines, Boxes(1, 1)))
    finally:
        aside.close()
