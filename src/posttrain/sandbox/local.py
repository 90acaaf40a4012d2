"""The sandbox of this machine: a dispatcher process with warm workers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, final

from posttrain.errors import ConfigError, InputError, RunFailed
from posttrain.protocols import Case, CaseResult, Limits, Program, RunResult, TestResult
from posttrain.sandbox import bubblewrap, probe
from posttrain.sandbox.calls import Answer, Call
from posttrain.sandbox.client import Dispatcher, DispatcherLost
from posttrain.sandbox.confine import Level
from posttrain.sandbox.dispatcher import wire
from posttrain.sandbox.dispatcher.order import refused
from posttrain.sandbox.dispatcher.process import Start
from posttrain.sandbox.session import LocalSession

T = TypeVar("T")
U = TypeVar("U")
LevelName = Literal["none", "limits", "landlock", "namespaces"]


@dataclass(frozen=True, slots=True)
class Local:
    """Settings of the local sandbox; `open` starts it.

    `workers` 0 means one for each core. Code runs at `min_level`, which is tried when opening: a machine
    that does not offer it is an error, never a silent downgrade; "none" is no confinement and needs
    `unsafe`. `import_folders` are folders that programs can import from; all in them can be read, solutions
    of tasks too. A worker is replaced after `recycle_after` runs. `retries`: how often a run without
    verdict is tried again. `landlock_abi` pretends an older kernel. `bubblewrap_wheel` allows the wheel's
    program where the system has none.
    """

    workers: int = 0
    min_level: LevelName = "landlock"
    unsafe: bool = False
    import_folders: tuple[str, ...] = ()
    recycle_after: int = 2000
    max_sessions: int = 64
    retries: int = 2
    landlock_abi: int | None = None
    bubblewrap_wheel: bool = False

    def check(self, source: str = "") -> None:
        """Raise ConfigError where a setting makes no sense; asks nothing of the machine."""
        for name, most in (
            ("workers", 128),
            ("recycle_after", 10**9),
            ("max_sessions", 120),
            ("retries", 100),
        ):
            value, least = getattr(self, name), int(name == "recycle_after")
            if not least <= value <= most:
                raise _wrong(f"{value} is not possible", name, source, f"Set it to {least} … {most}.")
        if self.min_level.upper() not in Level.__members__:
            known = ", ".join(level.name.lower() for level in Level)
            raise _wrong(f"{self.min_level!r} is no level", "min_level", source, f"Choose one of {known}.")
        if self.min_level == "none" and not self.unsafe:
            hint = "Choose landlock, or set unsafe = true for code that you trust like your own."
            raise _wrong("'none' confines nothing", "min_level", source, hint)
        for folder in self.import_folders:
            if not os.path.isabs(folder) or not os.path.isdir(folder):
                hint = "Give absolute paths of folders."
                raise _wrong(f"{folder!r} is no folder", "import_folders", source, hint)

    async def open(self) -> LocalSandbox:
        """Start the dispatcher and its workers; raise ConfigError where the level cannot be had."""
        sandbox = self.lazy()
        try:
            await sandbox.dispatcher()
        except DispatcherLost as error:
            raise RunFailed(f"the sandbox did not start: {error}") from error
        return sandbox

    def lazy(self, source: str = "") -> LocalSandbox:
        """Return a sandbox that starts when it is first used; ConfigError where a setting is wrong."""
        self.check(source)
        return LocalSandbox(self)

    @property
    def num_boxes(self) -> int:
        """Return how many programs run at once."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def level(self) -> Level:
        return Level[self.min_level.upper()]

    def start(self) -> Start:
        """Return what a dispatcher is started with; ConfigError where the level is missing."""
        _try(self.level, self.bubblewrap_wheel)
        program = bubblewrap.find(self.bubblewrap_wheel) if self.level == Level.NAMESPACES else ""
        return Start(
            num_workers=self.num_boxes,
            level=self.level,
            import_folders=self.import_folders,
            recycle_after=self.recycle_after,
            max_sessions=self.max_sessions,
            retries=self.retries,
            bubblewrap=program or "",
            landlock_abi=self.landlock_abi,
        )


def _wrong(problem: str, name: str, source: str, hint: str) -> ConfigError:
    return ConfigError(problem, key=f"sandbox.{name}", source=source, hint=hint)


def _try(level: Level, bubblewrap_wheel: bool) -> None:
    """Raise ConfigError where this machine does not have the level."""
    if level > Level.NONE:
        found = probe.examine(level, bubblewrap_wheel)
        if not found.available:
            raise ConfigError(
                f"this machine has no confinement of level {level.name.lower()!r} ({found.reason})",
                key="sandbox.min_level",
                hint=found.remedy[:1].upper() + found.remedy[1:],
            )


@final
class LocalSandbox:
    """Run untrusted programs on this machine; usable from any event loop or thread.

    Whatever a program does becomes a result. So do requests that cannot be met (an unknown language, limits
    that no run can have): INFRA where the one who asks is at fault, another status where the program is;
    the error output says why.
    """

    def __init__(self, settings: Local) -> None:
        self._settings = settings
        self._start: Start | None = None
        self._dispatcher: Dispatcher | None = None
        self._starting = threading.Lock()
        self._closed = False

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program in a fresh box."""
        answer = await self._ask("run", program, limits)
        return refused("INFRA", answer.text) if isinstance(answer, _Unanswered) else wire.to_run(answer)

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        """Call a program's functions in order, in one process; answers are aligned."""
        lines = [_plainly(wire.from_call, call).decode("ascii") for call in calls]
        answer = await self._ask("call", program, limits, calls=lines)
        if isinstance(answer, _Unanswered):
            return (Answer("INFRA", detail=answer.text),) * len(calls)
        return tuple(wire.to_answer(data) for data in answer)

    async def test(self, program: Program, cases: Sequence[Case], limits: Limits = Limits()) -> TestResult:
        """Judge a program by cases whose expected values never enter its box."""
        answer = await self._ask(
            "test", program, limits, cases=[_plainly(wire.from_case, case) for case in cases]
        )
        if isinstance(answer, _Unanswered):
            return TestResult("INFRA", (CaseResult("INFRA", answer.text),) * len(cases))
        return wire.to_test(answer)

    async def session(self, files: Mapping[str, bytes], limits: Limits = Limits()) -> LocalSession:
        """Open a box that keeps files and state between runs; RunFailed without room."""
        dispatcher = await self.dispatcher()
        try:
            number = await dispatcher.ask(
                "open", files=wire.from_files(files), limits=wire.from_limits(limits)
            )
        except (DispatcherLost, RuntimeError) as error:
            raise RunFailed(f"no session could be opened: {error}") from error
        return LocalSession(dispatcher, number)

    async def close(self) -> None:
        """End every run and process; closing twice is allowed."""
        with self._starting:
            self._closed = True
            dispatcher, self._dispatcher = self._dispatcher, None
        if dispatcher is not None:
            await dispatcher.close()

    async def dispatcher(self) -> Dispatcher:
        """Return the dispatcher, started if there is none or the last one was lost; it is ready."""
        if self._start is None:
            self._start = await asyncio.to_thread(self._settings.start)
        with self._starting:
            if self._closed:
                raise RunFailed("this sandbox is closed")
            lost = self._dispatcher if self._dispatcher is not None and self._dispatcher.lost else None
            if self._dispatcher is None or lost is not None:
                self._dispatcher = Dispatcher(self._start)
            current = self._dispatcher
        if lost is not None:
            await lost.close()
        await current.ready()
        return current

    async def _ask(self, do: str, program: Program, limits: Limits, **more: Any) -> Any:
        """Ask, and ask a fresh dispatcher where one was lost; at last give _Unanswered."""
        problem = "never asked"
        for _ in range(self._settings.retries + 1):
            try:
                dispatcher = await self.dispatcher()
                return await dispatcher.ask(
                    do, program=wire.from_program(program), limits=wire.from_limits(limits), **more
                )
            except (DispatcherLost, RuntimeError) as error:
                problem = str(error)
        return _Unanswered(problem)


@dataclass(frozen=True, slots=True)
class _Unanswered:
    text: str


def _plainly(pack: Callable[[T], U], value: T) -> U:
    """Return the packed value; InputError where it holds what is not plain data."""
    try:
        return pack(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{value!r:.200}: {error}. Use plain data: numbers, text, lists, dictionaries …"
        ) from error
