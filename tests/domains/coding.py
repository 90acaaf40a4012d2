"""Problems, attempts and an opened sandbox for the tests of code domains."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from posttrain.domains.problem import Problem
from posttrain.protocols import Case
from posttrain.sandbox import Local, LocalSandbox
from posttrain.types import Message, Task, Trajectory, Turn

DOUBLE = Problem(
    name="double",
    statement="Write a function double(x) that doubles a number.",
    function="double",
    visible=(Case(2, "double", (1,), hidden=False), Case(-6, "double", (-3,), hidden=False)),
    hidden=(
        Case(8, "double", (4,)), Case(0, "double", (0,)), Case(2.5, "double", (1.25,)),
        Case(10, "double", (5,)),
    ),
    preamble="import math\nfrom typing import List",
    solution="def double(x):\n    return 2 * x\n",
)  # fmt: skip
ADD = Problem(
    name="add",
    statement="Print the sum of the two numbers on the line.",
    function=None,
    visible=(Case("3\n", stdin=b"1 2\n", comparator="token", hidden=False),),
    hidden=(
        Case("11\n", stdin=b"5 6\n", comparator="token"),
        Case("0\n", stdin=b"0 0\n", comparator="token"),
    ),
    solution="a, b = map(int, input().split())\nprint(a + b)\n",
)


def problems(count: int) -> list[Problem]:
    """Return problems that differ in their names and statements."""
    return [
        replace(DOUBLE, name=f"double-{number}", statement=f"{DOUBLE.statement} This is number {number}.")
        for number in range(count)
    ]


def attempt(task: Task, *answers: str) -> Trajectory:
    """Return an attempt with these answers, each but the last one answered by the domain."""
    turns = [Turn(task.prompt[-1], (1, 2))]
    for number, answer in enumerate(answers):
        turns += [Turn(Message("user", "No."), (3,))] if number else []
        turns.append(Turn(Message("assistant", answer), (4, 5), (-0.1, -0.1), 0))
    return Trajectory(task, tuple(turns), "stop")


@contextmanager
def opened() -> Iterator[LocalSandbox]:
    """Open a sandbox with one worker."""
    sandbox = asyncio.run(Local(workers=1).open())
    try:
        yield sandbox
    finally:
        asyncio.run(sandbox.close())
