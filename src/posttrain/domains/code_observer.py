"""What runs in an episode's box to show an attempt its own errors; nothing it says is ever a verdict.

Its text is sent into the box as a program. It reads the file `asked` and appends a line of plain data to
the file named there for each thing it saw.
"""

from __future__ import annotations

import copy
import io
import sys
import traceback
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

from posttrain.sandbox import plain

FILE = "answer.py"
MAX_TEXT = 300


def observe(asked: dict[str, Any]) -> None:
    """Compile and define the source, then do what each step asks; say what came of it."""
    with open(asked["out"], "wb") as out:

        def say(*seen: object) -> None:
            out.write(plain.dumps(seen) + b"\n")
            out.flush()

        try:
            code = compile(asked["source"], FILE, "exec", dont_inherit=True)
        except BaseException as error:
            say("compile", "".join(traceback.format_exception_only(error))[-MAX_TEXT:])
            return
        names: dict[str, Any] = {}
        if not asked["programs"]:
            names = _namespace("solution")
            try:
                with redirect_stdout(io.StringIO()):
                    exec(code, names)
            except BaseException as error:
                say("define", _told(error))
                return
        for kind, *what in asked["steps"]:
            say(*_step(kind, what, code, names))


def _step(kind: str, what: list[Any], code: Any, names: dict[str, Any]) -> tuple[object, ...]:
    try:
        with redirect_stdout(io.StringIO()):
            if kind == "call":
                value = _find(names, what[0])(*copy.deepcopy(what[1]), **copy.deepcopy(what[2]))
                return ("value", plain.dumps(value, iterators=True))
            if kind == "test":
                space = dict(names)
                exec(compile(what[0], "example.py", "exec", dont_inherit=True), space)
                if "check" in space and "check" not in names:
                    space["check"](_find(names, what[1]))
                return ("held",)
        return ("printed", _printed(code, what[0]))
    except BaseException as error:
        return ("raised", [each.__name__ for each in type(error).__mro__], _told(error))


def _printed(code: Any, given: bytes) -> bytes:
    """Return what a program prints when it reads `given`."""
    taken, written = sys.stdin, io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(given), "utf-8")
    stream = io.TextIOWrapper(written, "utf-8", write_through=True)
    try:
        with redirect_stdout(stream):
            exec(code, _namespace("__main__"))
    except SystemExit:
        pass
    finally:
        sys.stdin = taken
    stream.flush()
    return written.getvalue()


def _namespace(name: str) -> dict[str, Any]:
    return ModuleType(name).__dict__


def _find(names: dict[str, Any], name: str) -> Any:
    """Look up `function`, `Class.method` or `Class().method`."""
    found: Any = None
    for number, part in enumerate(name.split(".")):
        plainly = part.removesuffix("()")
        if number == 0 and plainly not in names:
            raise NameError(f"the code defines no {plainly!r}")
        found = names[plainly] if number == 0 else getattr(found, plainly)
        found = found() if part.endswith("()") else found
    return found


def _told(error: BaseException) -> str:
    """Return an exception in a line, with the last line of the answer that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    where = f" (line {lines[-1]})" if lines else ""
    return "".join(traceback.format_exception_only(error)).strip()[:MAX_TEXT] + where


if __name__ == "__main__":
    with open("asked", "rb") as _file:
        observe(plain.loads(_file.read()))
