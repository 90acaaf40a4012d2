"""A stateful box for tools: files, a Python interpreter and a shell that live on between runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from posttrain.protocols import Limits, Program, RunResult, Session
from posttrain.sandbox.client import Dispatcher, DispatcherLost
from posttrain.sandbox.dispatcher import wire
from posttrain.sandbox.dispatcher.order import refused


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a session's log: what was asked and how it ended."""

    program: Program
    limits: Limits
    result: RunResult


@final
class LocalSession:
    """A session of the local sandbox; `log` holds every step, in order.

    Python and the shell keep their state until a run ends their process (a time-out, a crash, `exit`);
    files stay. A result says what the living process said of itself: it is for tools, never for verdicts.
    """

    def __init__(self, dispatcher: Dispatcher, number: int) -> None:
        self._dispatcher, self._number = dispatcher, number
        self._log: list[Step] = []
        self._closed = False

    @property
    def log(self) -> tuple[Step, ...]:
        return tuple(self._log)

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run in the session's box, after what ran before; INFRA where the session is lost or closed."""
        result = await self._result(program, limits)
        self._log.append(Step(program, limits, result))
        return result

    async def close(self) -> None:
        """End the session's processes and remove its files; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            try:
                await self._dispatcher.ask("close", session=self._number)
            except DispatcherLost:
                return

    async def _result(self, program: Program, limits: Limits) -> RunResult:
        if self._closed:
            return refused("INFRA", "this session is closed")
        try:
            answer = await self._dispatcher.ask(
                "step",
                session=self._number,
                program=wire.from_program(program),
                limits=wire.from_limits(limits),
            )
        except (DispatcherLost, RuntimeError) as error:
            return refused("INFRA", f"the session is lost: {error}")
        return wire.to_run(answer)


async def replay(steps: Iterable[Step], session: Session) -> tuple[Step, ...]:
    """Run logged steps again, in order, in another session; return the new steps."""
    return tuple(
        [Step(step.program, step.limits, await session.run(step.program, step.limits)) for step in steps]
    )
