"""Run snippets of Python inside a real confinement, each in a fresh confined child of one worker process.

`Setting` says which; `outcomes` gives back, per snippet, the signal or exit code it ended with and what it
printed. Run as a program, this file is the worker. Snippets may use `call(name, *arguments)`, which makes a
raw system call and prints its result or error, `WORKER` and `OUTSIDE`, two processes outside, and `CANARY`,
a file outside.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1] / "src"))
sys.path.insert(0, str(HERE))

from container import launching  # noqa: E402

from posttrain.protocols import Limits  # noqa: E402
from posttrain.sandbox import bubblewrap  # noqa: E402
from posttrain.sandbox.confine import Confinement, Level, Rules, default_readable  # noqa: E402
from posttrain.sandbox.confine.kernel import PR_SET_CHILD_SUBREAPER, prctl  # noqa: E402
from posttrain.sandbox.confine.syscalls import machine  # noqa: E402
from posttrain.sandbox.interpreter import base_python  # noqa: E402

USER = 59998
TIMEOUT_SECONDS = 20
LIMITS = Limits(memory_bytes=256 * 2**20, cpu_seconds=5, disk_bytes=4 * 2**20, num_processes=16)
ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Setting:
    """One way to be confined; `container`: the worker itself runs in a simulated default container."""

    level: Level = Level.LANDLOCK
    abi: int | None = None
    container: bool = False

    def __str__(self) -> str:
        abi = f" abi {self.abi}" if self.abi else ""
        return f"{self.level.name.lower()}{' in container' if self.container else ''}{abi}"

    @property
    def runs_as(self) -> int:
        """Return the user that candidates run as."""
        return os.geteuid() if not ROOT else 65534 if self.container else USER


@dataclass(frozen=True)
class Outcome:
    """How a snippet's process ended: `ended` is a signal's name or the exit code as text."""

    ended: str
    printed: str


@dataclass(frozen=True)
class Place:
    """Folders of one trial: a box to write in and a canary outside of it that belongs to the same user."""

    box: Path
    canary: Path

    @classmethod
    def make(cls, folder: Path, user: int) -> Place:
        """Make both below `folder`, which every user must be able to reach."""
        folder.chmod(0o755)
        place = cls(folder / "box", folder / "outside" / "canary")
        place.box.mkdir()
        place.canary.parent.mkdir()
        place.canary.write_text("untouched")
        if ROOT:
            os.chown(place.box, user, user)
        if ROOT and user != USER:  # a candidate's own user owns nothing outside of its box
            for path in (place.canary.parent, place.canary):
                os.chown(path, user, user)
        for path in (place.canary.parent, place.canary):
            path.chmod(0o777)
        return place


@contextmanager
def trial(setting: Setting) -> Iterator[Place]:
    """Give a place for a trial, not below pytest's folder, which is closed to other users."""
    with tempfile.TemporaryDirectory(prefix="posttrain-test-") as folder:
        yield Place.make(Path(folder), setting.runs_as)


def outcomes(
    setting: Setting,
    place: Place,
    snippets: Sequence[str],
    profile: str = "function",
    limits: Limits = LIMITS,
) -> list[Outcome]:
    """Run each snippet in its own confined process and tell how it ended."""
    uid = USER if ROOT and not setting.container else None
    readable = default_readable()
    rules = Rules(setting.level, profile, readable, (str(place.box),), setting.abi, uid)  # type: ignore[arg-type]
    words = [base_python(), "-S", "-P", __file__, rules.to_json()]
    if setting.level >= Level.NAMESPACES:
        program = bubblewrap.find()
        assert program
        words = [*bubblewrap.command(rules, program, (str(HERE.parents[1]),)), *words]
    if setting.container:
        words = launching(*words)
    order = {
        "snippets": list(snippets), "limits": asdict(limits), "box": str(place.box),
        "names": {"CANARY": str(place.canary), "OUTSIDE": os.getpid()},
    }  # fmt: skip
    done = subprocess.run(
        words,
        input=json.dumps(order),
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(place.box), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=len(snippets) * 2 + 60,
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(**item) for item in json.loads(done.stdout)]


def tried(
    setting: Setting, snippets: Sequence[str], profile: str = "function", limits: Limits = LIMITS
) -> list[Outcome]:
    """Run each snippet in its own confined process, all in one fresh place."""
    with trial(setting) as place:
        return outcomes(setting, place, snippets, profile, limits)


def work() -> None:
    """Be the worker: read the order from standard input, write the outcomes as JSON."""
    order = json.load(sys.stdin)
    confinement = Confinement(Rules.from_json(sys.argv[1]))
    confinement.enclose()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    names = order["names"] | {"WORKER": os.getpid(), "call": call}
    limits = Limits(**order["limits"])
    os.chdir(order["box"])
    found = [run(confinement, limits, names, snippet) for snippet in order["snippets"]]
    print(json.dumps([asdict(outcome) for outcome in found]))


def run(confinement: Confinement, limits: Limits, names: dict[str, Any], snippet: str) -> Outcome:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        candidate(confinement, limits, names, snippet, writing)
    os.close(writing)
    ending = os.pidfd_open(child)
    printed = drain(reading, ending)
    status = os.waitpid(child, 0)[1]
    killed = confinement.kill_all()
    reap(os.WNOHANG if not killed else 0)
    printed += drain(reading) if killed else b""
    os.close(reading)
    os.close(ending)
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else str(status >> 8)
    return Outcome(ended, printed.decode(errors="replace").strip())


def candidate(
    confinement: Confinement, limits: Limits, names: dict[str, Any], snippet: str, writing: int
) -> None:
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        confinement.apply(limits, keep=())
        code = 1
        exec(snippet, dict(names))
        code = 0
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}" if code == 1 else traceback.format_exc())
    finally:
        sys.stdout.flush()
        os._exit(code)


def drain(descriptor: int, ending: int | None = None) -> bytes:
    """Read to the end, to the time-out, or until the process of `ending` has ended and nothing waits."""
    received, until = b"", time.monotonic() + TIMEOUT_SECONDS
    watched = [descriptor] if ending is None else [descriptor, ending]
    while ready := select.select(watched, [], [], max(0.0, until - time.monotonic()))[0]:
        piece = os.read(descriptor, 65536) if descriptor in ready else b""
        if not piece:
            break
        received += piece
    return received


def reap(how: int) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, how)[0]:
            pass


def call(name: str, *arguments: Any) -> int:
    """Make a raw system call; print and return its result, or print the error's name and return -1."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    words += [ctypes.c_long(0)] * (6 - len(words))
    result = int(library.syscall(ctypes.c_long(machine().numbers[name]), *words))
    print(errno.errorcode[ctypes.get_errno()] if result < 0 else result, flush=True)
    return result


if __name__ == "__main__":
    work()
