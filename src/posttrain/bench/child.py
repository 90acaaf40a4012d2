"""The parent's side of the line protocol: start a measured process, ask it for steps, end it.

Each side of a comparison has a process of its own, so peak memory is comparable and steps can take turns.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from posttrain.bench import lines
from posttrain.errors import RunFailed
from posttrain.types import JSON

SHOWN_CHARACTERS = 2000
GRACE_SECONDS = 20.0
PACKAGES = Path(__file__).parents[2]

Facts = TypeVar("Facts")
Answer = TypeVar("Answer")
Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class Program:
    """What runs in a child: a script's path or a module's name, its settings, and folders to import from.

    Both sides of a comparison get the same number of `threads`; a peer may have its own `interpreter`.
    """

    name: str
    script: str
    settings: Mapping[str, JSON]
    threads: int
    folders: Sequence[Path] = ()
    interpreter: str = sys.executable

    def environment(self) -> dict[str, str]:
        """Return the child's environment variables."""
        inherited = os.environ.get("PYTHONPATH", "")
        places = [*map(str, self.folders), str(PACKAGES), *filter(None, [inherited])]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        quiet = {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(places)}
        return {**os.environ, **threads, **quiet}


class Child(Generic[Facts, Answer]):
    """A running program, ready for steps; use it in a `with` statement.

    `facts` is what it said when it was ready. Raises RunFailed, with the end of what the program
    printed, where it ends early or answers with something else.
    """

    def __init__(self, program: Program, facts: type[Facts], answer: type[Answer]) -> None:
        self._name, self._answer = program.name, TypeAdapter(answer)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        # -P: the script's own folder would otherwise hide packages of the same names.
        self._process = subprocess.Popen(
            [program.interpreter, "-P", lines.__file__, program.script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            env=program.environment(),
            text=True,
        )
        try:
            self._write(json.dumps(program.settings))
            self.facts = self._read(TypeAdapter(facts))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Child[Facts, Answer]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def step(self) -> Answer:
        """Have the program do one step, and return what it says about it."""
        self._write("go")
        return self._read(self._answer)

    def close(self) -> None:
        """End the program: it leaves when its input closes, and is killed if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._printed.close()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed("ended") from None

    def _read(self, adapter: TypeAdapter[Said]) -> Said:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed("ended")
        try:
            return adapter.validate_json(line)
        except ValidationError as error:
            raise self._failed(f"answered {line.strip()[:SHOWN_CHARACTERS]!r} ({error})") from None

    def _failed(self, what: str) -> RunFailed:
        code = self._process.poll() if what != "ended" else self._process.wait()
        self._printed.seek(0)
        shown = self._printed.read().decode(errors="replace")[-SHOWN_CHARACTERS:].strip()
        return RunFailed(f"{self._name} {what} (exit code {code}); it printed:\n{shown or '(nothing)'}")
