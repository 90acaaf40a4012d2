"""Processes from inside: others are out of reach, and what one run may use is bounded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import USER, Outcome, Setting, outcomes, trial, tried
from settings import CHECKED, EVERY, HARDEST, IS_ROOT

from posttrain.protocols import Limits
from posttrain.sandbox.confine import Level, Rules, default_readable
from posttrain.sandbox.interpreter import base_python

MIB = 2**20
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside of every box, of the user that containers run as where possible."""
    user = 65534 if IS_ROOT else None
    with subprocess.Popen(
        ["sleep", "600"], user=user, group=user, extra_groups=[] if IS_ROOT else None
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("profile", ["function", "command"])
@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_no_process_outside_can_be_signalled(
    setting: Setting, profile: str, victim: subprocess.Popen[bytes]
) -> None:
    attack = f"""
import ctypes, os, signal
library = ctypes.CDLL(None, use_errno=True)
for target in ({victim.pid}, WORKER, OUTSIDE, -{victim.pid}, 1):
    for number in (0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        assert library.kill(target, number) == -1, (target, number)
for process in ({victim.pid}, WORKER, OUTSIDE):
    for name in ("tgkill", "rt_tgsigqueueinfo"):
        assert call(name, process, process, 9, bytes(128)) == -1
    for name in ("tkill", "rt_sigqueueinfo"):
        assert call(name, process, 9, bytes(128)) == -1
"""
    everyone = "import os, signal\ntry:\n    os.kill(-1, signal.SIGKILL)\nexcept OSError: pass"
    found = tried(setting, [attack, everyone, "print('still here')"], profile)
    assert found[0].ended == "0", found[0].printed
    assert found[2] == Outcome("0", "still here"), "the worker lives"
    assert victim.poll() is None
    assert Path(f"/proc/{victim.pid}/stat").read_text().split()[2] == "S"


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_a_run_may_signal_itself(setting: Setting) -> None:
    snippets = [
        "import os; os.abort()",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import signal; signal.raise_signal(signal.SIGUSR1)",
        "import signal; signal.signal(signal.SIGALRM, lambda *_: print('rang')); signal.alarm(1); signal.pause()",  # noqa: E501
    ]
    found = tried(setting, snippets)
    assert [outcome.ended for outcome in found] == ["SIGABRT", "SIGTERM", "SIGUSR1", "0"]
    assert found[3].printed == "rang"


@pytest.mark.skipif(not IS_ROOT, reason="only root becomes another user")
def test_root_becomes_an_ordinary_user_without_groups_and_capabilities_for_good() -> None:
    code = """
import os
print(os.getresuid(), os.getresgid(), os.getgroups())
for change in (os.setuid, os.setgid, os.seteuid):
    try:
        change(0)
        print("changed")
    except PermissionError:
        pass
call("capget", bytes.fromhex("2205082000000000"), (buffer := __import__("ctypes").create_string_buffer(24)))
print(buffer.raw == bytes(24))
"""
    expected = f"({USER}, {USER}, {USER}) ({USER}, {USER}, {USER}) []\n0\nTrue"
    assert tried(Setting(), [code]) == [Outcome("0", expected)]


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_a_function_starts_no_process_but_threads(setting: Setting) -> None:
    code = """
import os, subprocess, threading
true = "/bin/true"
for start in (os.fork, lambda: os.posix_spawn(true, [true], {}), lambda: subprocess.run([true]),
              lambda: os.execv(true, [true]), os.forkpty):
    try:
        start()
        print("started")
    except OSError:
        pass
assert os.system("true") != 0
found = []
threads = [threading.Thread(target=found.append, args=(n,)) for n in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(found) == list(range(20)))
"""
    assert tried(setting, [code]) == [Outcome("0", "True")]


@pytest.mark.parametrize("setting", [Setting(), HARDEST], ids=str)
def test_limits_bound_memory_time_files_and_their_size_whatever_is_tried(setting: Setting) -> None:
    snippets = {
        "allocate": "x = bytearray(300 * 2**20)",
        "map": "import mmap; mmap.mmap(-1, 300 * 2**20)",
        "map shared": "import mmap; [mmap.mmap(-1, 2**20, flags=mmap.MAP_SHARED) for _ in range(300)]",
        "raise the limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "raise the time": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (60, 60))",
        "loop": "while True: pass",
        "loop deaf": "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "fill the disk": "f = open('big', 'wb')\nwhile True: f.write(bytes(2**20))",
        "grow a file": "f = open('big', 'wb'); f.truncate(2**40)",
        "open many": "files = [open('/dev/null') for _ in range(1000)]",
        "dump core": "import os; os.abort()",
        "anonymous file": "import os; os.memfd_create('x')",
        "shared memory": "import _posixshmem, os; _posixshmem.shm_open('/x', os.O_CREAT | os.O_RDWR, 0o600)",
        "many threads": (
            "import threading; threading.stack_size(32768)\n"
            "for _ in range(300): threading.Thread(target=threading.Event().wait, daemon=True).start()"
        ),
    }
    expected = {
        "allocate": "MemoryError", "map": "OSError", "map shared": "OSError", "raise the limit": "ValueError",
        "raise the time": "ValueError", "loop": "SIGXCPU", "loop deaf": "SIGKILL", "fill the disk": "OSError",
        "grow a file": "OSError", "open many": "OSError", "dump core": "SIGABRT", "anonymous file": "OSError",
        "shared memory": "PermissionError", "many threads": "RuntimeError",
    }  # fmt: skip
    limits = Limits(memory_bytes=256 * MIB, cpu_seconds=1, disk_bytes=4 * MIB, num_files=64)
    with trial(setting) as place:
        found = outcomes(setting, place, list(snippets.values()), limits=limits)
        sizes = [path.stat().st_size for path in place.box.iterdir()]
    ends = dict(zip(snippets, found, strict=True))
    shown = {n: o.printed.partition(":")[0] if o.ended == "1" else o.ended for n, o in ends.items()}
    if setting == HARDEST:  # a shared user's tasks cannot be told apart, so only the sum is bounded
        del shown["many threads"], expected["many threads"]
    assert shown == expected
    assert max(sizes, default=0) <= 4 * MIB


@pytest.mark.skipif(not IS_ROOT, reason="an own user is needed to count a run's tasks")
@pytest.mark.parametrize("level", [Level.LIMITS, Level.LANDLOCK], ids=str)
def test_a_command_has_as_many_processes_as_it_was_given(level: Level) -> None:
    code = """
import os, time
count = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except BlockingIOError:
    print(count)
"""
    limits = Limits(num_processes=7, memory_bytes=128 * MIB)
    with trial(Setting(level)) as place:
        found = outcomes(Setting(level), place, [code] * 2, "command", limits)
    assert found == [Outcome("0", "7")] * 2, "and nothing is left of the first run when the second begins"


@pytest.mark.parametrize("setting", [Setting(), Setting(container=True)], ids=str)
def test_everything_of_a_run_is_killed_at_once(setting: Setting) -> None:
    leave = """
import os, signal, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 32):
            if number not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 3)
        time.sleep(60)
print("left")
"""
    mark = f"mark-{os.getpid()}"
    named = f"import ctypes; ctypes.CDLL(None).prctl(15, b'{mark}')\n{leave}"
    assert tried(setting, [named], "command") == [Outcome("0", "left")]
    assert mark not in [comm(path) for path in Path("/proc").glob("[0-9]*/comm")]


def comm(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def test_a_run_dies_with_its_worker() -> None:
    code = """
import ctypes
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
print(number.value)
"""
    assert tried(Setting(), [code]) == [Outcome("0", str(int(signal.SIGKILL)))]


def test_a_worker_in_its_own_scope_reaches_its_run_and_nobody_else(victim: subprocess.Popen[bytes]) -> None:
    """In the worker, not in a candidate: kill(-1) must spare a stranger of the same user."""
    program = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from posttrain.sandbox.confine import Confinement, Rules
confinement = Confinement(Rules.from_json(sys.argv[2]))
assert confinement.enclose() and confinement.can_signal_all()
child = os.fork()
if child == 0:
    signal.pause()
assert confinement.kill_all()
print(os.waitpid(child, 0)[1])
for stranger in (int(sys.argv[3]), os.getppid()):
    try:
        os.kill(stranger, signal.SIGKILL)
    except PermissionError:
        print("spared")
"""
    rules = Rules(Level.LANDLOCK, "function", default_readable(), ("/tmp",), uid=USER if IS_ROOT else None)
    words = [
        base_python(),
        "-S",
        "-c",
        program,
        str(SOURCE),
        rules.to_json(),
        str(victim.pid),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9", "spared", "spared"]
    assert victim.poll() is None
