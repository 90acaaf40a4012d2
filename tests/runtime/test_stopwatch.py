"""Time that stands still while the work waits for what it cannot hasten."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from posttrain.runtime.stopwatch import Stopwatch


@pytest.fixture
def watch_at() -> tuple[Stopwatch, Callable[[float], None]]:
    """Return a watch of ten seconds and what sets its clock."""
    now = [100.0]
    return Stopwatch(10.0, lambda: now[0]), lambda time: now.__setitem__(0, time)


def test_time_runs_but_not_while_paused(watch_at: tuple[Stopwatch, Callable[[float], None]]) -> None:
    watch, at = watch_at
    at(103)
    assert watch.left() == 7
    pause = watch.pause()
    at(150)
    assert watch.left() == math.inf
    watch.resume(pause)
    assert watch.left() == 7
    at(158)
    assert watch.left() == -1


def test_it_goes_on_with_the_last_of_several_pauses(
    watch_at: tuple[Stopwatch, Callable[[float], None]],
) -> None:
    watch, at = watch_at
    first, second = watch.pause(), watch.pause()
    at(120)
    watch.resume(first)
    watch.resume(first)
    assert watch.left() == math.inf
    watch.resume(second)
    assert watch.left() == 10


def test_a_restart_gives_all_the_time_and_forgets_old_pauses(
    watch_at: tuple[Stopwatch, Callable[[float], None]],
) -> None:
    watch, at = watch_at
    stale = watch.pause()
    at(130)
    watch.restart()
    at(134)
    watch.resume(stale)
    assert watch.left() == 6
