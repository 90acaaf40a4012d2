"""Steps in order, refill of groups without signal, and staleness refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from posttrain.errors import ConfigError
from posttrain.protocols import Draw
from posttrain.rollouts.collect import Harvest
from posttrain.rollouts.stream import stream
from posttrain.types import Group


class Source:
    """Draws numbered tasks; a group carries a signal where its number is even."""

    def __init__(self, make_draw: Callable[..., Draw]) -> None:
        self.make_draw, self.next, self.asked = make_draw, 0, list[int]()

    async def draw(self, count: int) -> list[Draw]:
        self.asked.append(count)
        self.next += count
        return [self.make_draw(i) for i in range(self.next - count, self.next)]

    async def collect(self, draws: Sequence[Draw]) -> Harvest:
        return Harvest(tuple(Group(d.sequence, d.task, (), ()) for d in draws), (), 10, 1.0, 0.5)


def keeps_even(group: Group) -> bool:
    return group.sequence % 2 == 0


async def test_each_step_gets_its_draws_in_order(make_draw: Callable[..., Draw]) -> None:
    source = Source(make_draw)
    steps = [(s, [g.sequence for g in h.groups]) async for s, h in stream(
        source.draw, source.collect, lambda _: True, range(5, 8), groups=2)]  # fmt: skip
    assert steps == [(5, [0, 1]), (6, [2, 3]), (7, [4, 5])]


async def test_groups_without_signal_are_replaced_within_the_budget_and_all_are_handed_on(
    make_draw: Callable[..., Draw],
) -> None:
    source = Source(make_draw)
    ((_, harvest),) = [item async for item in stream(
        source.draw, source.collect, keeps_even, range(1, 2), groups=4, max_refills=2)]  # fmt: skip
    # 0 and 2 of the first four carry a signal, 4 of the next two, 6 of the last one.
    assert source.asked == [4, 2, 1]
    assert [group.sequence for group in harvest.groups] == [0, 1, 2, 3, 4, 5, 6]
    assert (harvest.num_tokens, harvest.sample_seconds) == (30, 3.0)


async def test_a_refill_ends_when_enough_groups_carry_a_signal(make_draw: Callable[..., Draw]) -> None:
    source = Source(make_draw)
    async for _ in stream(source.draw, source.collect, lambda _: True, range(1, 3), groups=4, max_refills=9):
        pass
    assert source.asked == [4, 4]


async def test_staleness_is_refused_with_the_key_to_change(make_draw: Callable[..., Draw]) -> None:
    source = Source(make_draw)
    with pytest.raises(ConfigError, match=r"run\.max_staleness.*Set it to 0"):
        async for _ in stream(source.draw, source.collect, keeps_even, range(1), groups=1, max_staleness=2):
            pass
