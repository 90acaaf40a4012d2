"""What runs in a box to learn what a function answers: the program of that box.

Snippets come in a file, one line of plain data; for each, one line goes out: how it ended, with its value as
plain data. Besides the standard library it needs `plain.py`, which goes along.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from posttrain.sandbox import plain

SECONDS = 0.5
"""CPU time for one snippet."""
MAX_LINE = 20_000


class Late(BaseException):
    """A snippet took too long."""


def _late(*_: object) -> NoReturn:
    raise Late


def survey(source: str, snippets: list[tuple[str, str]]) -> None:
    """Evaluate every snippet after a program's source and print how each ended."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 # what is printed is not asked for
    signal.signal(signal.SIGVTALRM, _late)
    namespace: dict[str, Any] = {"__name__": "__solution__"}
    exec(compile(source, "main.py", "exec", dont_inherit=True), namespace)
    for setup, expression in snippets:
        out.write(plain.dumps(_ended(namespace, setup, expression)) + b"\n")


def _ended(namespace: dict[str, Any], setup: str, expression: str) -> tuple[Any, ...]:
    """Return ('value', its line, its text, its type) or ('raised', class names, text) or (reason,)."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)
    stage = "setup"
    try:
        scope = dict(namespace)
        exec(setup, scope)
        stage = "call"
        value = eval(expression, scope)
        text = repr(value)[:MAX_LINE]
        stage = "value"
        line = plain.dumps(value, iterators=True)
        return ("value", line, text, type(value).__name__) if len(line) <= MAX_LINE else ("too large",)
    except Late:
        return ("too slow",)
    except Exception as error:
        lazily = stage == "value" and "plain data" not in str(error)
        if stage == "call" or lazily:
            return "raised", [kind.__name__ for kind in type(error).__mro__[:-1]], str(error)[:400]
        return (
            "not plain data" if stage == "value" else "its setup fails",
            f"{type(error).__name__}: {error}",
        )
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    survey(*plain.loads(Path("snippets").read_bytes()))
