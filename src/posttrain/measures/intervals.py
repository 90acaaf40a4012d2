"""Confidence intervals whose unit is the task, since attempts at one task are not independent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over tasks with its confidence limits; the limits are infinite for a single task."""

    mean: float
    low: float
    high: float
    num_tasks: int

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


ByTask = Mapping[str, Sequence[float]]
"""Values of the judged attempts by task; a task without any is left out of every measure."""


def task_means(values_by_task: ByTask) -> dict[str, float]:
    """Return the mean of each task that has values."""
    return {task: math.fsum(values) / len(values) for task, values in values_by_task.items() if values}


def clustered_mean(values_by_task: ByTask, confidence: float = 0.95) -> Interval:
    """Return the mean over tasks and its t-interval, clustered by task.

    mean ± t(n - 1) · s / √n over the n task means: each task weighs the same, however many of its
    attempts were judged. Where attempts are equally many it equals cluster-robust standard errors
    (Miller 2024, arXiv:2411.00640, section 2.2, eq. 4) up to n / (n - 1).
    """
    return interval_of_means(list(task_means(values_by_task).values()), confidence)


def interval_of_means(means: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the t-interval of independent values, one for each task; NaN without any."""
    num = len(means)
    if num == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean = math.fsum(means) / num
    if num == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    error = float(np.std(means, ddof=1)) / math.sqrt(num)
    margin = float(stdtrit(num - 1, 0.5 + confidence / 2)) * error
    return Interval(mean, mean - margin, mean + margin, num)
