"""What verdicts are built on: runs, and calls of a program's functions with plain data.

A `Call` goes into the box; an `Answer` comes back. Its `line` is whatever the candidate's process wrote,
unread so far: only `plain.loads` may look into it, outside the box and under limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from posttrain.protocols import Limits, Program, RunResult, Status


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function that a program defines; arguments are plain data."""

    function: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """How one call ended, and the line that the candidate's process gave for it.

    The status is OK only where the call came back with a value; then `line` is that value, encoded by
    `plain.dumps` inside the box: it is not trusted and may be any bytes up to the cap. Where the call
    raised, the status is RUNTIME_ERROR and `raised` names the exception's class and its bases, closest
    first, as the candidate tells them; `detail` is a text to show, never to decide by.
    """

    status: Status
    line: bytes | None = None
    detail: str = ""
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    raised: tuple[str, ...] = ()


class Runner(Protocol):
    """Run programs, or call their functions, in fresh boxes."""

    async def run(self, program: Program, limits: Limits = Limits()) -> RunResult:
        """Run a program from its start to its end."""
        ...

    async def call(
        self, program: Program, calls: Sequence[Call], limits: Limits = Limits()
    ) -> tuple[Answer, ...]:
        """Define a program once and call its functions in order, in one process; answers are aligned.

        `limits` hold for each call. A call that ends its process gets its status and the rest goes on in a
        fresh process. A process that ends without an answer, in whatever way, is never OK.
        """
        ...
