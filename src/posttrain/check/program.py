"""The `check` command: from a target to a report and an exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from posttrain.check import target as targets
from posttrain.check.config import config_sections
from posttrain.check.engines import engine_section
from posttrain.check.report import Report, Section
from posttrain.check.suites import algorithm_section, domain_section, sandbox_section, verifier_section
from posttrain.check.target import Kind
from posttrain.errors import InputError
from posttrain.protocols import Sandbox
from posttrain.sandbox.local import Local
from posttrain.types import Domain


def check(
    target: str,
    arguments: Sequence[str] = (),
    *,
    kind: str | None = None,
    num_tasks: int = 8,
    deadline_seconds: float = 10.0,
) -> Report:
    """Return what the suite for `target` saw; raise InputError where there is nothing to check.

    `arguments` are `key=value`: overrides of a config, keyword arguments of a function or class, and for a
    verifier the reference of the task that it is tried on.
    """
    chosen = targets.chosen_kind(kind)
    if chosen == "config" or (chosen is None and targets.is_config(target)):
        sections = asyncio.run(config_sections(Path(target), arguments, deadline_seconds))
        return Report(target, tuple(sections))
    work = _Work(target, arguments, chosen, num_tasks, deadline_seconds)
    return Report(target, (asyncio.run(work.run()),))


class _Work:
    """A part to be checked, with what was asked about it."""

    def __init__(
        self,
        target: str,
        arguments: Sequence[str],
        kind: Kind | None,
        num_tasks: int,
        deadline_seconds: float,
    ) -> None:
        self.target, self.settings = target, targets.settings(arguments)
        self.kind, self.num_tasks, self.deadline_seconds = kind, num_tasks, deadline_seconds
        self._sandbox: Sandbox = Local().lazy(targets.SOURCE)

    async def run(self) -> Section:
        """Run the matching suite; a sandbox is opened where a domain or verifier asks for one."""
        try:
            return await self._section()
        finally:
            await self._sandbox.close()

    async def _section(self) -> Section:
        """Find the part, tell its kind, and run the suite of that kind."""
        thing = targets.found(self.target)
        if self.kind in (None, "verifier") and targets.is_verifier(thing):
            verify: Any = thing
            return await verifier_section(
                self.target, verify, self._sandbox, self.settings, self.deadline_seconds
            )
        if self.kind == "engine" or (self.kind is None and targets.makes_an_engine(thing)):
            return await engine_section(self.target, thing, self.settings)
        part: Any = targets.made(self.target, self.settings)
        match self.kind or targets.kind_of(part):
            case "domain":
                return await self._domain(part)
            case "algorithm":
                return algorithm_section(self.target, part)
            case "engine":
                return await engine_section(self.target, thing, self.settings)
            case "sandbox":
                return await sandbox_section(self.target, part)
            case "verifier":
                return await verifier_section(self.target, part, self._sandbox, {}, self.deadline_seconds)
        raise targets.unknown(self.target, part)

    async def _domain(self, part: object) -> Section:
        if not isinstance(part, Domain):
            raise InputError(
                f"{self.target} is {type(part).__name__} {part!r}, expected a posttrain.Domain. "
                "See docs/how-to/own_domain.md."
            )
        return await domain_section(
            part, self._sandbox, num_tasks=self.num_tasks, levels=range(part.levels),
            deadline_seconds=self.deadline_seconds,
        )  # fmt: skip
