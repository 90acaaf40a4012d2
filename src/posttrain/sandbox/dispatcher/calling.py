"""Calling a program's functions: in one process, or a fresh one after each that ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from posttrain.protocols import Limits, Program, Status
from posttrain.sandbox.calls import Answer
from posttrain.sandbox.dispatcher.order import Order
from posttrain.sandbox.dispatcher.runs import LONGEST_SECONDS, check_begun, is_doubtful, status_of
from posttrain.sandbox.dispatcher.turns import Turns
from posttrain.sandbox.dispatcher.worker import Worker
from posttrain.sandbox.worker.job import Ended


@dataclass(frozen=True, slots=True)
class Called:
    """Answers to calls, and whether one is a time-out that the machine may be to blame for."""

    answers: tuple[Answer, ...]
    is_doubtful: bool


async def call(
    worker: Worker, threads: Executor, program: Program, lines: Sequence[bytes], limits: Limits
) -> Called:
    """Call in fresh processes until each line has its answer; raise WorkerLost without a verdict."""
    answers: list[Answer] = []
    doubtful = False
    while len(answers) < len(lines):
        called = await _call_in_one_process(worker, threads, program, lines[len(answers) :], limits)
        answers += called.answers
        doubtful = doubtful or called.is_doubtful
    return Called(tuple(answers), doubtful)


async def _call_in_one_process(
    worker: Worker, threads: Executor, program: Program, lines: Sequence[bytes], limits: Limits
) -> Called:
    """Return the answers to the first calls, one at least."""
    whole = min(LONGEST_SECONDS, (len(lines) + 1) * limits.cpu_seconds + 1)
    order = Order(
        "calls", "function", replace(limits, cpu_seconds=whole), program.source, program.arguments,
        program.files, program.stdin,
    )  # fmt: skip
    ours, theirs = socket.socketpair()
    with theirs:
        ending = worker.begin(order.job, [theirs.fileno()])
    turns = Turns(ours, lines, limits, worker.kill)
    # Cancelled, the thread goes on until the worker, which is then settled, has ended the process.
    held = asyncio.get_running_loop().run_in_executor(threads, turns.hold, order.payload())
    message = await ending
    await held
    ended = Ended.from_bytes(message)
    check_begun(turns.told, ended)
    answers = _with_the_last(turns, ended, limits)
    return Called(answers, is_doubtful(answers[-1].status, ended))


def _with_the_last(turns: Turns, ended: Ended, limits: Limits) -> tuple[Answer, ...]:
    """Return all answers: the call that was waiting when the process ended has failed."""
    memory = ended.memory_bytes
    answers = [answered.answer(memory) for answered in turns.answered]
    waiting = turns.num_lines - len(answers)
    if waiting:
        cpu = max(0.0, ended.cpu_seconds - sum(answer.cpu_seconds for answer in answers))
        last = replace(turns.fatal or _of_death(ended, limits), cpu_seconds=cpu, peak_memory_bytes=memory)
        # A program that fails while it is defined fails every call, and would do so in every process.
        answers += [last] * (1 if turns.is_defined else waiting)
    return tuple(answers)


def _of_death(ended: Ended, limits: Limits) -> Answer:
    """Return the answer for the call that ended its process: never OK, whatever the exit code."""
    status: Status = status_of(ended, replace(limits, cpu_seconds=LONGEST_SECONDS))
    how = f"signal {ended.signal}" if ended.signal is not None else f"exit code {ended.code}"
    return Answer(
        "RUNTIME_ERROR" if status == "OK" else status, detail=f"the process ended without an answer ({how})"
    )
