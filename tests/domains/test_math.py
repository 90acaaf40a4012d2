"""Made questions have exact golds and disjoint splits; rows give theirs."""

import json
from pathlib import Path

from posttrain.domains.math import math
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Message, Task, Trajectory, Turn


def attempt(task: Task, text: str) -> Trajectory:
    return Trajectory(task, (Turn(Message("assistant", text), (1,), (0.0,), 0),), "stop")


def test_tasks_are_pure_and_splits_share_no_question() -> None:
    domain = math()
    for level in range(domain.levels):
        train, held_out = (
            {domain.task(split, level, i).prompt[0].content for i in range(40)} for split in ("train", "eval")
        )
        assert not train & held_out
        assert domain.task("train", level, 3) == domain.task("train", level, 3)


async def test_gold_answers_pass_at_every_level_without_a_box() -> None:
    domain = math()
    for level in range(domain.levels):
        task = domain.task("train", level, 0)
        found = await domain.verify(attempt(task, str(task.reference["answer"])), ScriptedSandbox(), {})
        assert found.value == 1.0, task


def test_sums_are_right() -> None:
    task = math().task("train", 0, 5)
    a, b = (int(word) for word in task.prompt[0].content.splitlines()[0][8:-1].split(" + "))
    assert task.reference["gold"] == str(a + b)


async def test_rows_are_judged_by_their_column(tmp_path: Path) -> None:
    rows = [{"problem": f"{n} + 1?", "solution": str(n + 1)} for n in range(30)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    domain = math(str(path), prompt="problem", answer="solution")
    task = domain.task("train", 0, 0)
    gold = str(int(task.prompt[0].content.split()[0]) + 1)
    assert (await domain.verify(attempt(task, f"\\boxed{{{gold}}}"), ScriptedSandbox(), {})).value == 1.0
