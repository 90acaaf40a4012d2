"""What the dispatcher does for others: run, call and judge."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

from posttrain.protocols import Case, Limits, Program, RunResult, TestResult
from posttrain.sandbox.calls import Answer, Call
from posttrain.sandbox.compiled import LANGUAGES, Compiler
from posttrain.sandbox.dispatcher import calling, runs, wire
from posttrain.sandbox.dispatcher.calling import Called
from posttrain.sandbox.dispatcher.collect import collect
from posttrain.sandbox.dispatcher.order import Order, order, refusal, refused
from posttrain.sandbox.dispatcher.pool import Pool
from posttrain.sandbox.dispatcher.runs import Finished, with_files
from posttrain.sandbox.dispatcher.worker import Worker, WorkerLost
from posttrain.sandbox.verdict.cases import judge

MACHINE_TOO_BUSY = "the machine was too busy to give this run its time, even alone"


@final
@dataclass(slots=True)
class Service:
    """Implement `Runner` on a pool of workers, and `test` on top of it."""

    pool: Pool
    compiler: Compiler = field(init=False)
    threads: Executor = field(init=False)

    def __post_init__(self) -> None:
        # Twice as many as workers: a conversation that was cancelled still takes a moment to end.
        self.threads = ThreadPoolExecutor(2 * self.pool.staff.num_workers, "turns")
        self.compiler = Compiler(self.carry_out, self.pool.place.shared)

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program in a fresh box."""
        no = refusal(program, limits)
        if no is not None:
            return no
        if program.language not in LANGUAGES:
            return await self.carry_out(order(program, limits))
        built = await self.compiler.order(program, limits)
        return built if isinstance(built, RunResult) else await self.carry_out(built)

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        """Call a program's functions in order, in one process."""
        try:
            lines = [wire.from_call(call) for call in calls]
        except (ValueError, TypeError, RecursionError) as error:
            return (Answer("INFRA", detail=f"arguments must be plain data: {error}"),) * len(calls)
        return await self.call_lines(program, lines, limits)

    async def call_lines(
        self, program: Program, lines: Sequence[bytes], limits: Limits
    ) -> tuple[Answer, ...]:
        """Call functions with calls that are lines of plain data already."""
        problem = _uncallable(program, limits)
        if problem is not None:
            return (problem,) * len(lines)
        work = partial(calling.call, threads=self.threads, program=program, lines=lines, limits=limits)
        try:
            called = await self.pool.lend(work)
            if called.is_doubtful:
                called = await self.pool.lend(work, alone=True)
        except WorkerLost as lost:
            return (Answer("INFRA", detail=str(lost)),) * len(lines)
        return _excused(called) if called.is_doubtful else called.answers

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Judge a program by its cases."""
        return await judge(self, program, cases, limits)

    async def carry_out(self, order: Order) -> RunResult:
        """Run an order; a doubtful time-out is tried again alone."""
        work = partial(run_and_collect, order=order)
        try:
            finished = await self.pool.lend(work)
            if finished.is_doubtful:
                finished = await self.pool.lend(work, alone=True)
        except WorkerLost as lost:
            return refused("INFRA", str(lost))
        if finished.is_doubtful and finished.result.status == "WALL_TIMEOUT":
            return replace(finished.result, status="INFRA", stderr=f"sandbox: {MACHINE_TOO_BUSY}\n".encode())
        return finished.result


async def run_and_collect(worker: Worker, order: Order) -> Finished:
    """Run an order on a free worker and take the files that it asks for out of the box."""
    finished = await runs.run(worker, order)
    if not order.collect:
        return finished
    files = collect(worker.setup.box, order.collect, order.limits.disk_bytes)
    await worker.wipe()
    return replace(finished, result=with_files(finished.result, files))


def _uncallable(program: Program, limits: Limits) -> Answer | None:
    if program.language != "python":
        return Answer(
            "INFRA", detail=f"only 'python' programs have functions to call, not {program.language!r}"
        )
    no = refusal(program, limits)
    return None if no is None else Answer(no.status, detail=no.stderr.decode(errors="replace").strip())


def _excused(called: Called) -> tuple[Answer, ...]:
    """Turn wall time-outs on a machine that was too busy into no verdict."""
    return tuple(
        replace(answer, status="INFRA", detail=MACHINE_TOO_BUSY)
        if answer.status == "WALL_TIMEOUT"
        else answer
        for answer in called.answers
    )
