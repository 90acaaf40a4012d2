"""The dispatcher: runs that are cancelled, workers that are lost or worn, time-outs of a busy machine."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.protocols import Case, CaseResult, RunResult, TestResult
from posttrain.sandbox import Answer, Call, Limits, Local, LocalSandbox, Program
from posttrain.sandbox.dispatcher import wire
from posttrain.sandbox.dispatcher.collect import collect
from posttrain.sandbox.dispatcher.pool import Gate
from posttrain.sandbox.dispatcher.runs import is_doubtful
from posttrain.sandbox.dispatcher.told import failure
from posttrain.sandbox.worker.job import Ended

sys.path.insert(0, str(Path(__file__).parent))
import watching
from opened import children, family, is_alive, opened

QUICK = Limits(cpu_seconds=5.0, wall_seconds=20.0)
SLOW = Program("python", "import time; time.sleep(1); print('done')")
HELLO = Program("python", "print('hello')")


@pytest.fixture
def sandbox() -> Iterator[LocalSandbox]:
    with opened(Local(workers=1, recycle_after=3)) as sandbox:
        yield sandbox


def the_dispatcher(sandbox: LocalSandbox) -> int:
    """Return the process id of the dispatcher, the child of its warden."""

    async def warden() -> int:
        return (await sandbox.dispatcher()).process

    return children(asyncio.run(warden()))[0]


def test_a_cancelled_run_is_ended_and_its_worker_goes_on(sandbox: LocalSandbox) -> None:
    async def cancel() -> RunResult:
        task = asyncio.create_task(sandbox.run(Program("python", "while True: pass"), Limits(60, 60)))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await sandbox.run(HELLO, QUICK)

    began = time.monotonic()
    assert asyncio.run(cancel()).stdout == b"hello\n"
    assert time.monotonic() - began < 30


def test_runs_are_asked_for_from_several_event_loops(sandbox: LocalSandbox) -> None:
    results: list[RunResult] = []
    threads = [
        threading.Thread(target=lambda: results.append(asyncio.run(sandbox.run(HELLO, QUICK))))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [result.stdout for result in results] == [b"hello\n"] * 5


def test_a_worn_worker_is_replaced_and_goes_though_nothing_runs_any_more(sandbox: LocalSandbox) -> None:
    dispatcher = the_dispatcher(sandbox)
    (first,) = children(dispatcher)
    for _ in range(3):
        assert asyncio.run(sandbox.run(HELLO, QUICK)).status == "OK"
    assert watching.eventually(lambda: first not in children(dispatcher) and len(children(dispatcher)) == 1)


def test_a_worker_that_dies_while_it_is_relieved_is_replaced_by_one_only(sandbox: LocalSandbox) -> None:
    dispatcher = the_dispatcher(sandbox)

    async def wear_out_and_kill() -> None:
        for _ in range(6):
            (worker,) = children(dispatcher)
            results = [await sandbox.run(HELLO, QUICK) for _ in range(3)]
            running = asyncio.create_task(sandbox.run(HELLO, QUICK))
            os.kill(worker, signal.SIGKILL)
            assert [r.status for r in [*results, await running]] == ["OK"] * 4
            assert watching.eventually(lambda worker=worker: _one_other(dispatcher, worker))

    asyncio.run(wear_out_and_kill())
    time.sleep(0.5)  # a second one would take a moment to come up
    assert len(children(dispatcher)) == 1


def _one_other(dispatcher: int, worker: int) -> bool:
    found = children(dispatcher)
    return len(found) == 1 and worker not in found


def test_a_run_whose_worker_is_killed_is_made_again_on_another(sandbox: LocalSandbox) -> None:
    (worker,) = children(the_dispatcher(sandbox))

    async def run_and_kill() -> RunResult:
        task = asyncio.create_task(sandbox.run(SLOW, QUICK))
        await asyncio.sleep(0.5)
        os.kill(worker, signal.SIGKILL)
        return await task

    assert asyncio.run(run_and_kill()).stdout == b"done\n"


def test_a_killed_dispatcher_leaves_nothing_and_the_run_is_made_by_a_fresh_one(sandbox: LocalSandbox) -> None:
    dispatcher = the_dispatcher(sandbox)
    (worker,) = children(dispatcher)
    folders = set(Path("/tmp").glob("posttrain-sandbox-*"))

    async def run_and_kill() -> RunResult:
        shell = "setsid sleep 100 & setsid sleep 100 & sleep 1; echo done"
        task = asyncio.create_task(sandbox.run(Program("shell", shell), QUICK))
        await asyncio.sleep(0.5)
        left = family(worker)
        os.kill(dispatcher, signal.SIGKILL)
        result = await task
        assert left
        assert not any(is_alive(process) for process in (worker, *left))
        return result

    assert asyncio.run(run_and_kill()).stdout == b"done\n"
    assert not is_alive(dispatcher)
    gone = folders - set(Path("/tmp").glob("posttrain-sandbox-*"))
    assert gone, "the folder of the killed dispatcher is still there"


def test_closing_leaves_no_process_and_refuses_what_comes_after() -> None:
    with opened(Local(workers=2)) as sandbox:
        dispatcher = the_dispatcher(sandbox)
        below = [dispatcher, *family(dispatcher)]
        asyncio.run(sandbox.close())
        assert not any(is_alive(process) for process in below)
        with pytest.raises(Exception, match="closed"):
            asyncio.run(sandbox.run(HELLO))


async def test_a_run_alone_waits_for_the_others_and_keeps_new_ones_waiting() -> None:
    gate, order = Gate(), []

    async def beside(name: str, seconds: float) -> None:
        async with gate.beside_others():
            order.append(f"{name} in")
            await asyncio.sleep(seconds)
            order.append(f"{name} out")

    async def alone() -> None:
        async with gate.alone():
            order.append("alone in")
            await asyncio.sleep(0.05)
            order.append("alone out")

    first = asyncio.create_task(beside("first", 0.05))
    await asyncio.sleep(0.01)
    lone = asyncio.create_task(alone())
    await asyncio.sleep(0.01)
    await asyncio.gather(first, lone, beside("late", 0.0))
    assert order == ["first in", "first out", "alone in", "alone out", "late in", "late out"]


def test_a_time_out_is_doubtful_only_where_the_machine_kept_the_run_waiting() -> None:
    def ended(waited: float) -> Ended:
        return Ended(None, 9, "WALL_TIMEOUT", 0.1, 10.0, 0, waited)

    assert not is_doubtful("WALL_TIMEOUT", ended(1.0))  # it slept
    assert is_doubtful("WALL_TIMEOUT", ended(5.0))
    assert not is_doubtful("CPU_TIMEOUT", ended(5.0))
    assert is_doubtful("CPU_TIMEOUT", ended(9.0))
    assert not is_doubtful("OK", ended(9.0))


def test_what_goes_over_the_wire_comes_back_as_it_was() -> None:
    program = Program("python", "x = '\ud800'", ("a",), {"f": bytes(range(256))}, b"\xff", ("g",))
    assert wire.to_program(wire.from_program(program)) == program
    limits = Limits(1.5, 2.5, 3, 4, 5, 6, 7)
    assert wire.to_limits(wire.from_limits(limits)) == limits
    run = RunResult("OK", None, b"\xff", b"e", True, 0.5, 1.5, 7, {"f": b"\x00"})
    assert wire.to_run(wire.from_run(run)) == run
    answer = Answer("OK", b"\xff", "d", 0.5, 7, ("E",))
    assert wire.to_answer(wire.from_answer(answer)) == answer
    case = Case((1, {2.5}, None), "f", ([1], {"a": b"x"}), {"k": (1,)}, b"\xfe", "float:1e-6", False)
    assert wire.to_case(wire.from_case(case)) == case
    result = TestResult("WRONG", (CaseResult("OK", "d", 0.5, 7),), "weak")
    assert wire.to_test(wire.from_test(result)) == result
    frames = wire.pack({"id": 1}) + wire.pack({"id": 2})
    unpacker = wire.Unpacker()
    assert [m for i in range(len(frames)) for m in unpacker.feed(frames[i : i + 1])] == [{"id": 1}, {"id": 2}]
    with pytest.raises(ValueError, match="too long"):
        wire.Unpacker().feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b"[" * 100_000, b'{"names": 3}', b'{"status": "OK"}'])
def test_a_malformed_account_of_a_failure_is_a_failure(body: bytes) -> None:
    assert failure(body)[0] == "RUNTIME_ERROR"


def test_an_account_of_a_failure_cannot_claim_success() -> None:
    assert failure(b'{"status": "OK", "names": [], "text": ""}')[0] == "RUNTIME_ERROR"


def test_files_are_collected_without_following_links_or_taking_too_much(tmp_path: Path) -> None:
    outside, inside = tmp_path / "secret", tmp_path / "box"
    outside.write_text("secret")
    (inside / "d").mkdir(parents=True)
    (inside / "d" / "f").write_text("in")
    (inside / "link").symlink_to(outside)
    (inside / "up").symlink_to(tmp_path)
    os.link(outside, inside / "hard")
    os.mkfifo(inside / "pipe")
    (inside / "large").write_bytes(b"x" * 100)
    names = ["d/f", "link", "up/secret", "hard", "pipe", "d", "missing", "large", "../secret"]
    assert collect(str(inside), names, 50) == {"d/f": b"in"}
    assert collect(str(inside), ["large", "d/f"], 101) == {"large": b"x" * 100}


@pytest.mark.parametrize("name", ["folder", "folder/deeper", "pipe", "link", "hard", "large", "plain"])
def test_what_is_collected_or_refused_leaves_no_descriptor_open(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder" / "deeper").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "twice").write_bytes(b"x")
    os.link(tmp_path / "twice", tmp_path / "hard")
    (tmp_path / "large").write_bytes(b"x" * 100)
    before = watching.descriptors(os.getpid())
    collect(str(tmp_path), [name], 50)
    assert watching.descriptors(os.getpid()) == before


def test_arguments_of_calls_travel_as_plain_data(sandbox: LocalSandbox) -> None:
    values = (
        None,
        True,
        10**30,
        -0.0,
        float("inf"),
        "\ud800é",
        b"\xff",
        [1, (2,)],
        {1: {2}},
        frozenset({3}),
        1j,
    )
    program = Program("python", "def same(*values): return values")
    (answer,) = asyncio.run(sandbox.call(program, [Call("same", values)], QUICK))
    assert answer.status == "OK", answer
    from posttrain.sandbox import plain

    assert plain.loads(answer.line or b"") == values
