"""Comparison of two policies on the same tasks, and correction for many comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr  # type: ignore[import-untyped]

from posttrain.measures.intervals import ByTask, Interval, interval_of_means, task_means

_MAX_EXACT_TASKS = 16  # 2**16 sign patterns take milliseconds; beyond, the t-test is accurate


@dataclass(frozen=True, slots=True)
class Difference:
    """How much b exceeds a on the tasks both have: interval and two-sided p-value."""

    interval: Interval
    p_value: float


def paired_difference(a_by_task: ByTask, b_by_task: ByTask, confidence: float = 0.95) -> Difference:
    """Return b - a over the common tasks, from the differences of task means.

    The interval is a paired t-interval. The p-value is that of the exact sign-flip permutation test
    for up to 16 tasks with a difference other than 0, else of the paired t-test.
    """
    a, b = task_means(a_by_task), task_means(b_by_task)
    differences = [b[task] - a[task] for task in a if task in b]
    interval = interval_of_means(differences, confidence)
    moved = [d for d in differences if d != 0.0]
    if len(moved) <= _MAX_EXACT_TASKS:
        return Difference(interval, sign_flip_p(moved))
    return Difference(interval, paired_t_p(differences))


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the exact two-sided p-value of a mean of 0 under random signs.

    The share of the 2**n sign patterns whose |sum| is at least the observed one (Fisher's
    randomisation test); 1.0 without differences. Zeros may be left out: they change nothing.
    """
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    observed = abs(math.fsum(differences))
    # The tolerance keeps equal sums equal when they were added in another order.
    return float(np.mean(np.abs(sums) >= observed - 1e-9 * max(1.0, observed)))


def paired_t_p(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the t-test for a mean of 0; 1.0 with fewer than two."""
    num = len(differences)
    if num < 2:
        return 1.0
    mean, spread = math.fsum(differences) / num, float(np.std(differences, ddof=1))
    if spread == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stdtr(num - 1, -abs(mean) / (spread / math.sqrt(num))))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted for testing all of them, in the order given.

    Holm 1979, Scand. J. Statist. 6:65-70: the i-th smallest of m (from 0) times m - i, made monotone
    and capped at 1. Rejecting where the result is at most α keeps the family-wise error at α.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)
