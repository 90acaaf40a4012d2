"""Who gets the next box: turns between domains, one box left for others, nothing lost with a lost thread."""

from __future__ import annotations

import asyncio
import math

import pytest

from posttrain.protocols import Limits, Program, RunResult
from posttrain.rollouts.boxes import Boxes, LazySession, Seat, SharedSandbox
from posttrain.runtime.stopwatch import Stopwatch
from posttrain.sandbox.scripted import ScriptedSandbox, ran

PROGRAM = Program("python", "print()")


def asked(boxes: Boxes, domain: str, count: int) -> list[Seat]:
    return [boxes.ask(domain, Stopwatch(1.0)) for _ in range(count)]


def granted(seats: list[Seat]) -> list[bool]:
    return [seat.granted.done() for seat in seats]


def test_among_several_domains_none_holds_all_boxes_and_alone_it_may() -> None:
    boxes = Boxes(4, num_domains=2)
    assert granted(asked(boxes, "slow", 6)) == [True, True, True, False, False, False]
    assert granted(asked(boxes, "quick", 2)) == [True, False]
    assert granted(asked(Boxes(4, num_domains=1), "alone", 5)) == [True] * 4 + [False]


def test_a_single_box_is_taken_in_turns() -> None:
    boxes = Boxes(1, num_domains=3)
    slow, quick, third = asked(boxes, "slow", 3), asked(boxes, "quick", 2), asked(boxes, "third", 1)
    seats, order = [*slow, *quick, *third], list[str]()
    while held := [seat for seat in seats if seat.granted.done()]:
        order += [seat.domain for seat in held]
        seats.remove(held[0])
        boxes.leave(held[0])
    assert order == ["slow", "quick", "third", "slow", "quick", "slow"]


def test_leaving_twice_or_before_the_grant_gives_no_box_too_many() -> None:
    boxes = Boxes(1, num_domains=1)
    first, second, third = asked(boxes, "d", 3)
    boxes.leave(second)
    boxes.leave(first)
    boxes.leave(first)
    assert granted([first, second, third]) == [True, False, True]
    assert granted(asked(boxes, "d", 1)) == [False]


def test_a_deadline_stands_still_until_its_box_is_granted() -> None:
    boxes = Boxes(1, num_domains=1)
    (first,) = asked(boxes, "d", 1)
    waiting = boxes.ask("d", Stopwatch(1.0))
    assert waiting.clock.left() == math.inf
    boxes.leave(first)
    assert waiting.clock.left() <= 1.0


async def test_a_verdict_that_is_over_gives_back_what_its_lost_work_holds() -> None:
    boxes, entered = Boxes(1, num_domains=1), asyncio.Event()

    class Endless:
        async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
            entered.set()
            await asyncio.sleep(60)
            raise AssertionError

    lost = SharedSandbox(Endless(), boxes, "d", Stopwatch(1.0))
    running = asyncio.create_task(lost.run(PROGRAM))
    await entered.wait()
    lost.leave()
    assert granted(asked(boxes, "d", 1)) == [True]
    with pytest.raises(RuntimeError, match="verdict is over"):
        await lost.run(PROGRAM)
    running.cancel()


async def test_a_session_is_opened_when_something_runs_in_it_and_its_runs_take_boxes() -> None:
    sandbox, boxes = ScriptedSandbox(runs=[ran(b"1"), ran(b"2")]), Boxes(1, num_domains=1)
    lazy = LazySession(sandbox)
    session = SharedSandbox(sandbox, boxes, "d", Stopwatch(1.0)).sharing(lazy)
    assert lazy._opened is None
    assert (await session.run(PROGRAM)).stdout == b"1"
    (seat,) = asked(boxes, "d", 1)
    waiting = asyncio.create_task(session.run(PROGRAM))
    await asyncio.sleep(0)
    assert not waiting.done()
    boxes.leave(seat)
    assert (await waiting).stdout == b"2"
    await session.close()
