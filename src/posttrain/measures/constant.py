"""What one constant answer would score: the bar that a policy must clear to have learnt anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from posttrain.measures.intervals import Interval, clustered_mean
from posttrain.types import Task

Score = Callable[[Task, str], float]
"""What an answer earns on a task."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The best constant answer and what it scores on held-out tasks."""

    answer: str
    interval: Interval


def best_constant(
    train: Sequence[Task], held_out: Sequence[Task], score: Score, num_tried: int = 20
) -> Constant:
    """Return the answer that scores best on training tasks, scored on held-out ones.

    Tried are the `num_tried` commonest gold answers of the training tasks (`reference["answer"]`);
    ties go to the commoner. Chosen and scored on different tasks, so the figure is not optimistic.
    Without gold answers the constant is '' and earns what '' earns.
    """
    best = max(candidates(train, num_tried), key=lambda answer: sum(score(task, answer) for task in train))
    return Constant(best, clustered_mean({task.id: (score(task, best),) for task in held_out}))


def candidates(train: Sequence[Task], num_tried: int = 20) -> list[str]:
    """Return the commonest gold answers of `train`, the commonest first; [''] where there are none."""
    golds = Counter(str(task.reference["answer"]) for task in train if "answer" in task.reference)
    return [answer for answer, _ in golds.most_common(num_tried)] or [""]
