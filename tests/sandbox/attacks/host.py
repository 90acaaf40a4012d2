"""The process from which attacks are launched under one setting; it says for each which rules were broken.

Usage: python -m tests.sandbox.attacks.host SETTINGS, where SETTINGS are those of `Local` as a JSON object, or
the word bare. It reads the names of attacks, one a line, and answers each with a JSON line. A test starts one
host for each setting, in a container where that is the setting: so all outside the box has a trainer's user.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from posttrain.protocols import Case, Limits, Program, Sandbox
from posttrain.sandbox.local import Local

from .attack import Attack, Outcome
from .corpus import BY_NAME
from .outside import Outside, State

RIGHT = Program("python", "def double(x):\n    return 2 * x\n")
CASES = (Case(8, "double", (4,)), Case(9, "double", (4,)))
SETTLING_SECONDS = 4.0
BUSY_TRIES = 5
"""How often an attack is launched anew where other work kept the machine too busy for a fair verdict."""


class Ground(Protocol):
    """Where an attack is launched."""

    async def launch(self, attack: Attack) -> Outcome: ...

    async def close(self) -> None: ...


class Boxes:
    """A sandbox: attacks go into its boxes."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def launch(self, attack: Attack) -> Outcome:
        """Run or test the attack's program, after those that come before it."""
        for program in attack.before:
            await self._sandbox.run(program, attack.limits)
        started = time.monotonic()
        if attack.cases:
            result = await self._sandbox.test(attack.program, attack.cases, attack.limits)
            return Outcome(
                result.status,
                cases=tuple(case.status for case in result.cases),
                details=tuple(case.detail for case in result.cases),
                seconds=time.monotonic() - started,
            )
        run = await self._sandbox.run(attack.program, attack.limits)
        return Outcome(
            run.status, (), run.stdout, run.stderr, run.files, (), run.peak_memory_bytes,
            time.monotonic() - started,
        )  # fmt: skip

    async def is_sound(self) -> bool:
        """Tell whether right is still right and wrong is wrong, in both profiles."""
        result = await self._sandbox.test(RIGHT, CASES)
        shell = await self._sandbox.run(Program("shell", "echo fine"), Limits(num_processes=4))
        judged = [case.status for case in result.cases]
        return judged == ["OK", "WRONG"] and (shell.status, shell.stdout) == ("OK", b"fine\n")

    async def close(self) -> None:
        """Close the sandbox."""
        await self._sandbox.close()


class Bare:
    """No sandbox at all: the program runs with this process's rights. It shows which attacks have teeth."""

    async def launch(self, attack: Attack) -> Outcome:
        """Run the attack's program in a folder of its own."""
        program, started = attack.program, time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for name, content in program.files.items():
                Path(folder, name).write_bytes(content)
            source = ("-c", program.source) if program.language == "python" else program.arguments[1:]
            done = subprocess.run(
                [sys.executable, *source], cwd=folder, capture_output=True, timeout=20, check=False
            )
        status = "OK" if done.returncode == 0 else "RUNTIME_ERROR"
        return Outcome(status, (), done.stdout, done.stderr, seconds=time.monotonic() - started)

    async def close(self) -> None:
        """Do nothing."""


def filled(program: Program, words: dict[str, str]) -> Program:
    """Return a program with what the names between two @ stand for."""

    def fill(text: str) -> str:
        for name, word in words.items():
            text = text.replace(f"@{name}@", word)
        return text

    files = {
        fill(name): fill(content.decode("latin-1")).encode("latin-1")
        for name, content in program.files.items()
    }
    return replace(
        program,
        source=fill(program.source),
        arguments=tuple(map(fill, program.arguments)),
        files=files,
        collect=tuple(map(fill, program.collect)),
    )


def count_descendants() -> int:
    """Count the processes below this one, however they were started."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return len(found) - 1


async def settled(outside: Outside, before: State, processes: int) -> list[str]:
    """Wait until everything is as it was before; name what is not."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        after, now = outside.state(), count_descendants()
        broken = [] if after == before else [f"nothing outside changes (before {before}, after {after})"]
        broken += [f"no process is left ({now - processes} more)"] if now > processes else []
        if not broken or time.monotonic() > deadline:
            return broken
        await asyncio.sleep(0.02)


async def answer(ground: Ground, attack: Attack, outside: Outside, processes: int) -> dict[str, object]:
    """Launch one attack and say which rules were broken."""
    words = outside.words()
    ready = replace(
        attack,
        program=filled(attack.program, words),
        before=tuple(filled(program, words) for program in attack.before),
    )
    before = outside.state()
    try:
        outcome = await ground.launch(ready)
        for _ in range(BUSY_TRIES):
            if not outcome.was_too_busy:
                break
            outcome = await ground.launch(ready)
    except Exception as error:
        return {"broken": [f"no traceback: {type(error).__name__}: {error}"], "seen": "", "seconds": 0.0}
    broken = attack.broken_rules(outcome, outside.secret.encode())
    if isinstance(ground, Boxes):
        if not await ground.is_sound():
            broken.append("right stays right and wrong stays wrong afterwards")
        broken += await settled(outside, before, processes)
    seen = f"{outcome.status} {outcome.cases} {outcome.texts[:3000]!r}"
    return {"broken": broken, "seen": seen, "seconds": outcome.seconds}


async def serve(settings: str) -> None:
    """Answer the names of attacks until the input ends."""
    outside = Outside()
    ground: Ground = Bare() if settings == "bare" else Boxes(await Local(**json.loads(settings)).open())
    if isinstance(ground, Boxes):
        assert await ground.is_sound(), "the sandbox is not sound before the first attack"
    processes = count_descendants()
    print(json.dumps({"ready": processes}), flush=True)
    try:
        while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(await answer(ground, BY_NAME[name], outside, processes)), flush=True)
    finally:
        await ground.close()
        outside.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
