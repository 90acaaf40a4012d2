"""Being a Python program in the forked worker: a script, functions, or a session.

Whatever runs here can do what it likes to this process, so nothing said here is ever believed outside.
"""

from __future__ import annotations

import atexit
import builtins
import json
import linecache
import os
import random
import socket
import sys
import threading
import traceback
import types
from typing import Any, Literal, TextIO

from posttrain.sandbox import plain
from posttrain.sandbox.worker.conversation import (
    DEFINED,
    DONE,
    FAILED,
    INDEX_BYTES,
    RAISED,
    VALUE,
    Conversation,
)
from posttrain.sandbox.worker.payload import Payload, take_in

FILE = "main.py"
MAX_TEXT = 2_000
Namespace = dict[str, Any]


def run_script(payload: Payload, talk: Conversation) -> int:
    """Run a program as `python main.py` would; return its exit code."""
    _open_streams()
    namespace = _new_namespace("__main__", payload)
    code = _executed(payload.source, namespace, talk)
    try:
        threading._shutdown()  # type: ignore[attr-defined] # what the interpreter itself calls at its end
        atexit._run_exitfuncs()
    finally:
        flushed = _flush()
    return code if flushed or code else 120


def answer_calls(payload: Payload, talk: Conversation) -> int:
    """Define a program, then answer calls of its functions until nobody asks any more."""
    namespace = _new_namespace("__solution__", payload)
    try:
        code = compile(payload.source, FILE, "exec", dont_inherit=True)
    except BaseException as error:
        talk.send(FAILED, _told(error, "COMPILE_ERROR"))
        return 1
    try:
        exec(code, namespace)
    except BaseException as error:
        talk.send(FAILED, _told(error))
        return 1
    talk.send(DEFINED)
    while True:
        try:
            body = talk.read_body()
        except EOFError:
            return 0
        kind, answer = _answered(namespace, body[INDEX_BYTES:])
        talk.send(kind, body[:INDEX_BYTES] + answer)


def serve_session(payload: Payload, talk: Conversation) -> int:
    """Run one program after the other in the same namespace until nobody asks any more."""
    _open_streams()
    namespace = _new_namespace("__main__", payload)
    while True:
        code = _executed(payload.source, namespace, talk)
        _flush()
        talk.send(DONE, str(code).encode())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        try:
            payload = take_in(talk)
        except EOFError:
            return 0
        sys.argv[:] = [FILE, *payload.arguments]
        sys.stdin = _stream(0, "r", "surrogateescape")


def _new_namespace(name: str, payload: Payload) -> Namespace:
    """Return the namespace of a fresh module, in an interpreter that looks freshly started."""
    module = types.ModuleType(name)
    module.__dict__.update(__file__=FILE, __builtins__=builtins)
    sys.modules[name] = module
    sys.argv[:] = [FILE, *payload.arguments]
    sys.path.insert(0, os.getcwd())
    random.seed(0)  # forking has seeded it from the system: a verdict should not depend on that
    lines = payload.source.splitlines(keepends=True)
    linecache.cache[FILE] = (len(payload.source), None, lines, FILE)
    return module.__dict__


def _open_streams() -> None:
    """Give the program streams of its own on descriptors 0, 1 and 2."""
    streams = {
        "stdin": _stream(0, "r", "surrogateescape"),
        "stdout": _stream(1, "w", "surrogateescape"),
        "stderr": _stream(2, "w", "backslashreplace", buffering=1),
    }
    vars(sys).update(streams, **{f"__{name}__": stream for name, stream in streams.items()})


def _stream(descriptor: int, mode: Literal["r", "w"], errors: str, buffering: int = -1) -> TextIO:
    return open(descriptor, mode, buffering, "utf-8", errors, closefd=False)


def _flush() -> bool:
    """Write out what is buffered; tell whether that worked."""
    worked = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except BaseException:
            worked = False
    return worked


def _executed(source: str, namespace: Namespace, talk: Conversation) -> int:
    """Run source and return the exit code that the interpreter would have."""
    try:
        code = compile(source, FILE, "exec", dont_inherit=True)
    except BaseException as error:
        talk.send(FAILED, _told(error, "COMPILE_ERROR"))
        _show(error.with_traceback(None))
        return 1
    try:
        exec(code, namespace)
    except SystemExit as error:
        return _exit_code(error.code)
    except BaseException as error:
        if isinstance(error, MemoryError):
            talk.send(FAILED, _told(error))
        trace = error.__traceback__.tb_next if error.__traceback__ else None  # without this function's frame
        _show(error.with_traceback(trace))
        return 1
    return 0


def _show(error: BaseException) -> None:
    """Print a traceback; the interpreter's own printer would look for a source file."""
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        traceback.print_exception(error)


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _answered(namespace: Namespace, line: bytes) -> tuple[bytes, bytes]:
    """Return the frame that answers one call."""
    try:
        name, arguments, keywords = plain.loads(line)
        value = _find(namespace, name)(*arguments, **keywords)
        return VALUE, plain.dumps(value, iterators=True)
    except BaseException as error:
        return RAISED, _told(error)


def _find(namespace: Namespace, name: str) -> Any:
    """Look up `function`, `Class.method` or `Class().method`."""
    first, *rest = name.split(".")
    found = (
        _made(namespace[first.removesuffix("()")], first) if first.removesuffix("()") in namespace else None
    )
    if found is None:
        raise NameError(f"the program defines no {first!r}")
    for part in rest:
        found = _made(getattr(found, part.removesuffix("()")), part)
    return found


def _made(found: Any, part: str) -> Any:
    return found() if part.endswith("()") else found


def _told(error: BaseException, status: str = "") -> bytes:
    """Describe an exception: its classes, closest first, and its text."""
    status = status or ("MEMORY" if isinstance(error, MemoryError) else "RUNTIME_ERROR")
    names = [kind.__name__ for kind in type(error).__mro__[:-1]]
    try:
        text = str(error)[:MAX_TEXT]
    except BaseException:
        text = "(its text cannot be had)"
    return json.dumps({"status": status, "names": names, "text": f"{names[0]}: {text}"}).encode()


def rehearse(talk: Conversation, other: socket.socket) -> None:
    """Define a program and answer calls in the worker itself, and leave the interpreter as it was."""
    modules, path, arguments = dict(sys.modules), list(sys.path), list(sys.argv)
    for line in REHEARSED:
        body = b"\0" * INDEX_BYTES + line
        other.sendall(Payload(REHEARSAL).to_bytes() + len(body).to_bytes(4, "big") + body)
        payload = take_in(talk)
        namespace = _new_namespace("__solution__", payload)
        exec(compile(payload.source, FILE, "exec", dont_inherit=True), namespace)
        kind, answer = _answered(namespace, talk.read_body()[INDEX_BYTES:])
        talk.send(kind, answer)
        other.recv(65_536)
        sys.modules.clear()
        sys.modules.update(modules)
        sys.path[:], sys.argv[:] = path, arguments
    linecache.cache.pop(FILE)


REHEARSAL = """
from typing import List
import math

def echo(value: List[int], *rest) -> List[int]:
    kept = [math.sqrt(part) for part in sorted(rest)]
    return value if not kept or max(kept) < 10 else {str(part): part for part in kept}
"""
REHEARSED = tuple(
    plain.dumps(("echo", arguments, {}))
    for arguments in [
        (1,),
        (1.5, 2, 3),
        ("text", 1),
        ([1, 2, [3.0]],),
        ({"a": (1, None, True)},),
        (0, 400),
        (),
    ]
)
