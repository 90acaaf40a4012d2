"""What lies outside the box, for attacks to aim at, and the proof that it is untouched."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from posttrain.sandbox.interpreter import base_python

MARK = "pt-escape"
"""What attacks name the files and processes that they make outside."""

_VICTIM = (
    "import sys, time\n"
    "kept = sys.stdin.readline()\n"
    "sys.stdout.write('ready\\n'); sys.stdout.flush()\n"
    "while True: time.sleep(60)\n"
)
_IPC_CREATE, _IPC_REMOVE = 0o1000, 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything about the outside that an attack could change."""

    files: tuple[tuple[str, bytes, int, int, int, int, tuple[str, ...]], ...]
    victim: tuple[object, ...]
    shared_memory: bytes
    connections: int
    marked: tuple[str, ...]


@final
class Outside:
    """A secret in a file, a process, shared memory and this environment; sockets that listen.

    As far as users and modes go, anyone may read and write all of it: only the box keeps an attack from it.
    """

    def __init__(self) -> None:
        self.secret = f"secret-{secrets.token_hex(16)}"
        self.folder = Path(tempfile.mkdtemp(prefix="outside-"))
        self.folder.chmod(0o777)
        self._file = self._write("secret.txt", self.secret)
        self._shared = Path("/dev/shm", f"outside-{secrets.token_hex(4)}")
        self._shared.write_text(self.secret)
        self._shared.chmod(0o666)
        os.mkfifo(self.folder / "fifo", 0o666)
        os.environ["OUTSIDE_SECRET"] = self.secret
        self._inherited = os.open(self._file, os.O_RDWR)
        os.set_inheritable(self._inherited, True)
        self._victim = self._start_victim()
        self._sockets = self._listen()
        self._segment, self._address = self._share()
        self._connections = 0

    def words(self) -> dict[str, str]:
        """Return what the names between two @ stand for; never the secret."""
        tcp, udp, _, abstract = self._sockets
        return {
            "secret": str(self._file), "folder": str(self.folder), "shm": str(self._shared),
            "pid": str(self._victim.pid), "host": str(os.getpid()), "segment": str(self._segment),
            "port": str(tcp.getsockname()[1]), "udp": str(udp.getsockname()[1]),
            "socket": str(self.folder / "socket"), "abstract": abstract.getsockname()[1:].decode(),
            "python": base_python(), "home": str(Path.home()),
            "packages": str(Path(sys.prefix, "lib")), "here": str(Path.cwd()), "mark": MARK,
        }  # fmt: skip

    def state(self) -> State:
        """Return what an attack could have changed, to be compared with what it was before."""
        self._count_connections()
        paths = sorted([*self.folder.iterdir(), self._shared])
        places = (
            Path("/"), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path.home(), Path.cwd(), self.folder,
        )  # fmt: skip
        marked = [
            str(path) for place in places if os.access(place, os.R_OK) for path in place.glob(f"{MARK}*")
        ]
        return State(
            tuple(_describe(path) for path in paths),
            self._describe_victim(),
            ctypes.string_at(self._address, len(self.secret)),
            self._connections,
            tuple(sorted(marked)) + tuple(_marked_processes()),
        )

    def close(self) -> None:
        """Take everything away again."""
        self._victim.kill()
        self._victim.wait()
        for listener in self._sockets:
            listener.close()
        os.close(self._inherited)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmctl(self._segment, _IPC_REMOVE, None)
        self._shared.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o666)
        return path

    def _start_victim(self) -> subprocess.Popen[str]:
        """Start a process with the secret in its memory, environment and command line."""
        victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM, self.secret],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"OUTSIDE_SECRET": self.secret},
        )  # fmt: skip
        assert victim.stdin is not None
        assert victim.stdout is not None
        victim.stdin.write(self.secret + "\n")
        victim.stdin.flush()
        assert victim.stdout.readline() == "ready\n"
        time.sleep(0.05)
        return victim

    def _listen(self) -> tuple[socket.socket, ...]:
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        for listener, address in (
            (tcp, ("127.0.0.1", 0)),
            (udp, ("127.0.0.1", 0)),
            (path, str(self.folder / "socket")),
            (abstract, f"\0outside-{secrets.token_hex(8)}"),
        ):
            listener.bind(address)
            listener.setblocking(False)
            if listener is not udp:
                listener.listen(8)
        (self.folder / "socket").chmod(0o777)
        return tcp, udp, path, abstract

    def _share(self) -> tuple[int, int]:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        segment = libc.shmget(secrets.randbelow(2**30) + 1, 4096, _IPC_CREATE | 0o666)
        address = libc.shmat(segment, None, 0)
        ctypes.memmove(address, self.secret.encode(), len(self.secret))
        return segment, address

    def _count_connections(self) -> None:
        tcp, udp, path, abstract = self._sockets
        for listener in (tcp, path, abstract):
            self._connections += _drain(lambda listener=listener: listener.accept()[0].close())
        self._connections += _drain(lambda: udp.recv(64))

    def _describe_victim(self) -> tuple[object, ...]:
        process = self._victim.pid
        if self._victim.poll() is not None:
            return ("dead", self._victim.returncode)
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        stopped, traced = stat[0] in "Tt", "TracerPid:\t0" in Path(f"/proc/{process}/status").read_text()
        limits = Path(f"/proc/{process}/limits").read_text()
        score = Path(f"/proc/{process}/oom_score_adj").read_text()
        return (stopped, traced, stat[15:17], sorted(os.sched_getaffinity(process)), limits, score)


def _drain(take: Any) -> int:
    count = 0
    while True:
        try:
            take()
        except BlockingIOError:
            return count
        count += 1


def _describe(path: Path) -> tuple[str, bytes, int, int, int, int, tuple[str, ...]]:
    found = path.lstat()
    content = path.read_bytes() if path.is_file() else b""
    attributes = tuple(os.listxattr(path, follow_symlinks=False))
    return (
        str(path), content, found.st_mode, found.st_uid, found.st_nlink, found.st_mtime_ns, attributes
    )  # fmt: skip


def _marked_processes() -> list[str]:
    """List the processes that named themselves after the mark: none may outlive its run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name = (entry / "comm").read_text().strip()
            except OSError:
                continue
            if name.startswith(MARK):
                found.append(f"process {entry.name}")
    return found
