"""A measured process's side of the line protocol: it does one step when told to, and sleeps otherwise.

Standard library only, for it also runs inside a peer's process. The parent writes a line for each step
and closes the pipe at the end; the child answers each line, and its readiness, with one JSON object.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO


class Lines:
    """The pipe to the parent; whatever the measured code prints goes to standard error instead."""

    def __init__(self, questions: TextIO, answers: TextIO) -> None:
        self._questions, self._answers = questions, answers

    @classmethod
    def take_over(cls) -> Lines:
        """Keep standard output for answers alone, and let everybody else's prints go to standard error."""
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        return cls(sys.stdin, answers)

    def wait(self) -> bool:
        """Sleep until the parent asks for a step; False when it wants no more."""
        return bool(self._questions.readline())

    def answer(self, values: Mapping[str, Any]) -> None:
        """Send one JSON object, with this process's peak of resident memory so far."""
        self._answers.write(json.dumps({**values, "peak_bytes": peak_bytes()}) + "\n")
        self._answers.flush()


def peak_bytes() -> int:
    """Return the most resident memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent's memory of before exec as well
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def serve(script: str, settings: Mapping[str, Any]) -> None:
    """Call `main(lines, settings)` of a script's path, or of a module's name."""
    lines = Lines.take_over()
    if script.endswith(".py"):
        runpy.run_path(script)["main"](lines, settings)
    else:
        importlib.import_module(script).main(lines, settings)


if __name__ == "__main__":
    serve(sys.argv[1], json.loads(sys.stdin.readline()))
