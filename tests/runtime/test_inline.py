"""The side loop: deadlines hold whatever a user's function does."""

import asyncio
import gc
import threading
import time
import warnings

import pytest

from posttrain.runtime.inline import Aside, Blocked, DeadlineExceeded, within
from posttrain.runtime.stopwatch import Stopwatch


async def test_a_result_comes_back() -> None:
    aside = Aside()

    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await aside.run(work, 1.0) == 7
    aside.close()


async def test_an_exception_comes_back_as_it_was_raised() -> None:
    aside = Aside()

    async def work() -> int:
        raise KeyError("gold")

    with pytest.raises(KeyError, match="gold"):
        await aside.run(work, 1.0)
    aside.close()


async def test_a_waiting_function_is_cancelled_at_its_deadline_and_the_thread_lives_on() -> None:
    aside = Aside()
    with pytest.raises(DeadlineExceeded, match=r"0\.05"):
        await aside.run(lambda: asyncio.sleep(60), 0.05)
    assert aside.num_abandoned == 0
    assert await aside.run(lambda: asyncio.sleep(0, "alive"), 1.0) == "alive"
    aside.close()


async def test_a_blocking_function_costs_its_own_result_only() -> None:
    aside, release = Aside(), threading.Event()

    async def block() -> None:
        release.wait(30)

    started = time.perf_counter()
    with pytest.raises(DeadlineExceeded):
        await aside.run(block, 0.05)
    assert time.perf_counter() - started < 10, "the deadline must not wait for the blocked thread"
    assert aside.num_abandoned == 1
    assert await aside.run(lambda: asyncio.sleep(0, "fresh"), 1.0) == "fresh"
    release.set()
    aside.close()


async def test_work_kept_waiting_by_a_blocking_neighbour_still_gets_its_result() -> None:
    aside, release = Aside(), threading.Event()

    async def block() -> None:
        release.wait(30)

    async def neighbour(number: int) -> int:
        return number

    blocked = asyncio.create_task(aside.run(block, 0.05))
    await asyncio.sleep(0.01)
    results = await asyncio.gather(*(aside.run(lambda i=i: neighbour(i), 0.05) for i in range(5)))
    assert results == [0, 1, 2, 3, 4]
    with pytest.raises(DeadlineExceeded):
        await blocked
    release.set()
    aside.close()


def test_plain_work_within_its_deadline_returns_raises_or_is_left_behind() -> None:
    assert within(5.0, lambda: 7) == 7
    with pytest.raises(KeyError, match="gold"):
        within(5.0, lambda: {}["gold"])
    release = threading.Event()
    with pytest.raises(DeadlineExceeded, match=r"0\.05"):
        within(0.05, lambda: release.wait(30))
    release.set()


def own_timeout() -> None:
    raise TimeoutError("of the work itself")


def test_a_timeout_of_the_works_own_is_no_deadline() -> None:
    with pytest.raises(TimeoutError, match="of the work itself"):
        within(5.0, own_timeout)


async def test_a_block_in_a_child_task_ends_too_and_is_not_asked_for_ever() -> None:
    aside, release = Aside(), threading.Event()

    async def block() -> None:
        release.wait(30)

    async def gathers() -> None:
        await asyncio.gather(block())

    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(aside.run(gathers, 0.05), 20)
    release.set()
    aside.close()


async def test_a_timeout_that_the_work_raises_itself_is_handed_on_as_it_is() -> None:
    aside = Aside()

    async def socket_times_out() -> None:
        raise TimeoutError("connection timed out")

    with pytest.raises(TimeoutError, match="connection timed out"):
        await aside.run(socket_times_out, 5.0)
    aside.close()


async def test_a_blocked_lane_keeps_no_other_lane_waiting() -> None:
    aside, release, finished = Aside(), threading.Event(), list[str]()

    async def block() -> None:
        release.wait(30)

    async def neighbour() -> None:
        finished.append("neighbour")

    blocked = asyncio.create_task(aside.run(block, 0.5, lane="slow"))
    await asyncio.sleep(0.01)
    await asyncio.gather(*(aside.run(neighbour, 0.05, lane="quick") for _ in range(5)))
    assert (len(finished), blocked.done()) == (5, False)
    with pytest.raises(Blocked):
        await blocked
    release.set()
    aside.close()


async def test_what_waits_behind_its_deadlines_watch_is_not_late() -> None:
    aside, clock = Aside(), Stopwatch(0.05)

    async def waits() -> str:
        pause = clock.pause()
        await asyncio.sleep(0.3)
        clock.resume(pause)
        return "in time"

    assert await aside.run(waits, clock) == "in time"
    aside.close()


async def test_a_task_that_exits_the_thread_leaves_its_lane_alive() -> None:
    aside = Aside()

    async def leaves() -> None:
        raise SystemExit(3)

    async def gathers() -> str:
        leaving = asyncio.ensure_future(leaves())
        await asyncio.wait({leaving})
        return "still here"

    assert await aside.run(gathers, 5.0) == "still here"
    assert aside.num_abandoned == 0
    aside.close()


def test_nothing_is_left_unawaited_or_pending_when_the_caller_is_aborted() -> None:
    release = threading.Event()

    async def block() -> None:
        release.wait(30)

    async def abort(aside: Aside) -> None:
        works = [block, lambda: asyncio.sleep(60), *[lambda: asyncio.sleep(1)] * 3]
        asked = [asyncio.create_task(aside.run(work, 60)) for work in works]
        await asyncio.sleep(0.05)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        aside = Aside()
        asyncio.run(abort(aside))
        release.set()
        aside.close()
        del aside
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
