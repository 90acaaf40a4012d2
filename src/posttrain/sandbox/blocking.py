"""A synchronous face of the local sandbox, for scripts and notebooks without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, final

from posttrain.protocols import Case, Limits, Program, RunResult, TestResult
from posttrain.sandbox.local import Local, LocalSandbox
from posttrain.sandbox.session import LocalSession

T = TypeVar("T")


@final
class Blocking:
    """The local sandbox with methods that wait; a context manager that closes it at the end.

    with Blocking(Local()) as sandbox:
        result = sandbox.run(Program("python", "print(6 * 7)"))
    """

    def __init__(self, settings: Local = Local()) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="blocking-sandbox", daemon=True)
        self._thread.start()
        try:
            self._sandbox: LocalSandbox = self._wait(settings.open())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Blocking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program in a fresh box."""
        return self._wait(self._sandbox.run(program, limits))

    def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Judge a program by its cases."""
        return self._wait(self._sandbox.test(program, cases, limits))

    def session(self, files: Mapping[str, bytes] | None = None, limits: Limits = Limits()) -> BlockingSession:
        """Open a box that keeps files and interpreter state between runs."""
        return BlockingSession(self, self._wait(self._sandbox.session(files or {}, limits)))

    def close(self) -> None:
        """End every run and process; closing twice is allowed."""
        if not self._loop.is_closed():
            self._wait(self._sandbox.close())
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@final
class BlockingSession:
    """A session with methods that wait."""

    def __init__(self, owner: Blocking, session: LocalSession) -> None:
        self._owner, self._session = owner, session

    def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run in the session's box, after what ran before."""
        return self._owner._wait(self._session.run(program, limits))

    def close(self) -> None:
        """End the session's processes and remove its files."""
        self._owner._wait(self._session.close())
