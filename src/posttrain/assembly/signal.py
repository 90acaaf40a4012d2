"""Can this algorithm learn from so many attempts? Tried on groups that differ, before anything is sampled."""

from __future__ import annotations

from posttrain.protocols import Algorithm
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

VERDICTS = (
    (Reward(1.0), Reward(0.0)),
    (Reward(1.0, by_turn=(1.0,)), Reward(0.0, by_turn=(0.0,))),
    (Reward(0.0, by_turn=(1.0,)), Reward(0.0, by_turn=(0.0,))),
)
"""How the first attempt and all others may be judged: by outcome, by outcome and turn, by turn alone."""


def finds_signal(algorithm: Algorithm, task: Task, attempts: int) -> bool:
    """Tell whether the algorithm keeps a group of so many attempts in any way that they may differ.

    It may be made for one way only, and raise at others; raises what it raised if it keeps none.
    """
    asked = Turn(Message("user", "?"), (0,))
    attempt = Trajectory(task, (asked, Turn(Message("assistant", "!"), (1,), (-1.0,), 0)), "stop")
    failures: list[Exception] = []
    for first, other in VERDICTS:
        verdicts = (first, *(other,) * (attempts - 1))
        try:
            if algorithm.keeps(Group(0, task, (attempt,) * attempts, verdicts)):
                return True
        except Exception as error:  # a user's algorithm may raise anything
            failures.append(error)
    if failures:
        raise failures[0]
    return False
