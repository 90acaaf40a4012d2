"""Being another program: the candidate executes it, in an environment built from nothing."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from posttrain.sandbox.worker.payload import Payload

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""Exit codes that shells use for a program that cannot be executed or is missing."""

SESSION = r"""
while IFS= read -r -d '' -u 3 posttrain_source; do
  eval "$posttrain_source" 3>&-
  printf '.\0\0\0\003%03d' "$?" >&3
done
"""
"""A shell that runs one script after the other from descriptor 3 and tells each one's exit code there."""


def environment(box: str) -> dict[str, str]:
    """Return all the variables a program gets."""
    return {
        "HOME": box,
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TMPDIR": box,
        "TZ": "UTC",
    }


def execute(payload: Payload) -> NoReturn:
    """Become the program whose name and arguments are the payload's arguments."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored is inherited
        signal.signal(number, signal.SIG_DFL)
    name, variables = payload.arguments[0], environment(os.getcwd())
    try:
        os.execvpe(name, list(payload.arguments), variables)
    except OSError as error:
        os.write(2, f"{name}: {error.strerror}\n".encode(errors="surrogateescape"))
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
