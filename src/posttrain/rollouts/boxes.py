"""Boxes of the sandbox shared out between domains, so that a slow one leaves room for the others.

A verdict's deadline stands still while it waits for a box: that others are slow is not its verifier's fault.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import cast, final

from posttrain.errors import RunFailed
from posttrain.protocols import Case, Limits, Program, RunResult, Sandbox, Session, TestResult
from posttrain.runtime.stopwatch import Stopwatch
from posttrain.sandbox.calls import Answer, Call, Runner


@final
class Seat:
    """A domain's claim to one box; `granted` is done once it has it."""

    def __init__(self, domain: str, clock: Stopwatch) -> None:
        self.domain, self.clock = domain, clock
        self.granted: Future[None] = Future()
        self.pause = clock.pause()


@final
class Boxes:
    """Grant `total` boxes: domains take turns, and with several of them none may hold all boxes."""

    def __init__(self, total: int, num_domains: int) -> None:
        self._total = total
        self._most = total if num_domains <= 1 else max(1, total - 1)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._served: Counter[str] = Counter()
        self._holding: set[Seat] = set()
        self._waiting: dict[str, deque[Seat]] = {}

    def ask(self, domain: str, clock: Stopwatch) -> Seat:
        """Return a claim, granted now or when a box comes free; `clock` stands still until then."""
        seat = Seat(domain, clock)
        with self._lock:
            self._waiting.setdefault(domain, deque()).append(seat)
            self._grant()
        return seat

    def leave(self, seat: Seat) -> None:
        """Give a box back, or withdraw a claim; doing so twice changes nothing."""
        with self._lock:
            if seat in self._holding:
                self._holding.remove(seat)
                self._held[seat.domain] -= 1
            elif seat in self._waiting.get(seat.domain, ()):
                self._waiting[seat.domain].remove(seat)
            self._grant()
        seat.clock.resume(seat.pause)

    def _grant(self) -> None:
        while self._held.total() < self._total and (seat := self._next()) is not None:
            if seat.granted.set_running_or_notify_cancel():
                self._holding.add(seat)
                self._held[seat.domain] += 1
                # Here and not where it waits: a thread that is blocked would never start its clock again.
                seat.clock.resume(seat.pause)
                seat.granted.set_result(None)

    def _next(self) -> Seat | None:
        """Return the next claim: of the domain that was served longest ago."""
        ready = [name for name, queue in self._waiting.items() if queue and self._held[name] < self._most]
        if not ready:
            return None
        domain = min(ready, key=lambda name: self._served[name])
        self._served[domain] = max(self._served.values(), default=0) + 1
        return self._waiting[domain].popleft()


@final
class SharedSandbox:
    """The sandbox as one verdict sees it: each use takes a box of its domain's share."""

    def __init__(self, sandbox: Sandbox, boxes: Boxes, domain: str, clock: Stopwatch) -> None:
        self._sandbox, self._boxes, self._domain, self._clock = sandbox, boxes, domain, clock
        self._seats: set[Seat] = set()
        self._left = False

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program in a fresh box."""
        async with self.box():
            return await self._sandbox.run(program, limits)

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Judge a program by its cases."""
        async with self.box():
            return await self._sandbox.test(program, cases, limits)

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        """Call a program's functions in order; AttributeError where the sandbox has no such method."""
        async with self.box():
            return await cast("Runner", self._sandbox).call(program, calls, limits)

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> Session:
        """Open a session; it takes a box while something runs in it."""
        async with self.box():
            return self.sharing(await self._sandbox.session(files, limits))

    async def close(self) -> None:
        """Do nothing: the sandbox belongs to the run."""

    def sharing(self, session: Session) -> Session:
        """Return `session` with its runs in boxes of this share."""
        return _SharedSession(self, session)

    def leave(self) -> None:
        """Give back every box, also those of work that was left behind."""
        self._left = True
        for seat in list(self._seats):
            self._boxes.leave(seat)

    @asynccontextmanager
    async def box(self) -> AsyncIterator[None]:
        """Hold one box; RuntimeError once the verdict is over."""
        if self._left:
            raise RuntimeError("the verdict is over: it has no boxes any more")
        seat = self._boxes.ask(self._domain, self._clock)
        self._seats.add(seat)
        try:
            await asyncio.wrap_future(seat.granted)
            yield
        finally:
            self._boxes.leave(seat)
            self._seats.discard(seat)


@final
class _SharedSession:
    """A session whose runs take boxes of its domain's share."""

    def __init__(self, owner: SharedSandbox, session: Session) -> None:
        self._owner, self._session = owner, session

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run in the session's box, after what ran before."""
        async with self._owner.box():
            return await self._session.run(program, limits)

    async def close(self) -> None:
        """End the session."""
        await self._session.close()


@final
class LazySession:
    """One episode's session, opened when something first runs in it: most domains need none."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._opened: Session | None = None

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run in the episode's box, after what ran in earlier turns."""
        if self._opened is None:
            try:
                self._opened = await self._sandbox.session({}, limits)
            except RunFailed as error:  # no room for another: this attempt's bad luck, not the run's end
                raise ConnectionError(str(error)) from error
        return await self._opened.run(program, limits)

    async def close(self) -> None:
        """End the session if there is one."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()
