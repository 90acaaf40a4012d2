"""The parts of a worker: emptying boxes, ending processes, what it is told and what it tells."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from posttrain.protocols import Limits
from posttrain.sandbox.confine import Level, Rules
from posttrain.sandbox.worker import box, processes
from posttrain.sandbox.worker.conversation import Conversation
from posttrain.sandbox.worker.groups import Group
from posttrain.sandbox.worker.job import Ended, Job, Setup
from posttrain.sandbox.worker.payload import Payload

RULES = Rules(Level.LANDLOCK, "function", ("/usr",), ("/box",), 3, 70_000)


def test_a_box_is_emptied_however_deep_locked_or_oddly_named_its_content(tmp_path: Path) -> None:
    inside, outside = tmp_path / "box", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("stays")
    here = os.open(inside, os.O_RDONLY)
    for _ in range(400):  # far longer than any path may be
        os.mkdir("x" * 100, dir_fd=here)
        below = os.open("x" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (inside / "link").symlink_to(outside)
    (inside / "folder link").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe")
    (inside / "\udcff\n").write_text("odd name")
    locked = inside / "locked"
    locked.mkdir()
    (locked / "file").write_text("x")
    locked.chmod(0)
    inside.chmod(0)
    box.empty(str(inside))
    assert list(inside.iterdir()) == []
    assert outside.read_text() == "stays"


def test_what_a_box_holds_is_counted_up_to_a_point(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"x" * 100_000)
    size, count = box.usage(str(tmp_path), 10)
    assert size >= 100_000
    assert count == 2
    for number in range(50):
        (tmp_path / f"{number}").touch()
    assert box.usage(str(tmp_path), 10)[1] == 11


REAPER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from posttrain.sandbox.confine.kernel import PR_SET_CHILD_SUBREAPER, prctl
from posttrain.sandbox.worker import processes
prctl(PR_SET_CHILD_SUBREAPER, 1)
first = os.fork()
if first == 0:
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
    os._exit(5)
time.sleep(0.5)
reaped = processes.end_all(first, lambda: False)
print(os.waitstatus_to_exitcode(reaped.status), list(processes.descendants(os.getpid())))
"""


def test_all_descendants_are_ended_orphans_in_sessions_of_their_own_too() -> None:
    source = str(Path(processes.__file__).parents[3])
    done = subprocess.run([sys.executable, "-c", REAPER, source], capture_output=True, text=True, timeout=60)
    assert done.stdout == "5 []\n", done.stderr


def test_cpu_time_of_another_process_is_read_from_its_clock() -> None:
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 30
        while processes.cpu_seconds(child.pid) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        used = processes.cpu_seconds(child.pid)
        assert used == pytest.approx(processes.use(child.pid).cpu_seconds, abs=0.2)
        assert processes.use(child.pid).memory_bytes > 2**20
    finally:
        child.kill()
        child.wait()
    assert processes.cpu_seconds(child.pid) == 0.0
    assert processes.use(child.pid) == processes.Use(0.0, 0)


def test_what_a_worker_is_told_and_tells_comes_over_as_it_was() -> None:
    setup = Setup(RULES, RULES, "/box", ("/a",), ("/group",), True)
    assert Setup.from_bytes(setup.to_bytes()) == setup
    job = Job("script", "command", Limits(1.5, 2.5, 3, 4, 5, 6, 7), False, True)
    assert Job.from_bytes(job.to_bytes()) == job
    ended = Ended(None, int(signal.SIGKILL), "MEMORY", 0.5, 1.5, 12, 0.25)
    assert Ended.from_bytes(ended.to_bytes()) == ended


def test_a_control_group_takes_limits_and_tells_peaks(tmp_path: Path) -> None:
    for name in ("cgroup.procs", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "pids.max"):
        (tmp_path / name).write_text("0")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    group = Group((str(tmp_path),))
    group.limit(Limits(memory_bytes=1000, num_processes=4))
    assert (tmp_path / "memory.limit_in_bytes").read_text() == "1000"
    (tmp_path / "memory.max_usage_in_bytes").write_text("900\n")
    assert group.peak_bytes() == 900
    assert not group.ran_out_of_memory()
    (tmp_path / "memory.oom_control").write_text("oom_kill 4\n")
    assert group.ran_out_of_memory()
    assert Group(()).peak_bytes() == 0


def test_a_worker_loads_the_standard_library_and_little_of_it() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import posttrain.sandbox.worker.main; "
        "print([name for name in sys.modules if name.partition('.')[0] in sys.argv[2].split(',')])"
    )
    source = str(Path(processes.__file__).parents[3])
    heavy = "asyncio,subprocess,torch,numpy,pydantic,typer,multiprocessing,logging,ssl"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, source, heavy],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[]\n"


def test_a_conversation_that_does_not_read_ahead_leaves_what_follows_to_the_next_program() -> None:
    for reads_ahead, left in ((False, b"echo 1\0"), (True, b"")):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(Payload("source", ("a",)).to_bytes() + b"echo 1\0")
            talk = Conversation(theirs.fileno(), reads_ahead)
            assert Payload.from_json(talk.read_json()) == Payload("source", ("a",))
            theirs.setblocking(False)
            try:
                found = theirs.recv(100)
            except BlockingIOError:
                found = b""
            assert found == left
