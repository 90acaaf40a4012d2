"""Try the walls from inside: run as a program with rules and canaries, print as JSON which walls held.

A probe starts this in a fresh interpreter, inside namespaces where the rules ask for them. Nothing is
concluded from version numbers: each entry is an act that must fail, or must work, in a confined child.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from collections.abc import Callable

from posttrain.protocols import Limits
from posttrain.sandbox.confine.confinement import SECURITY_SIGNAL, Confinement
from posttrain.sandbox.confine.kernel import prctl, syscall
from posttrain.sandbox.confine.levels import Level, Rules
from posttrain.sandbox.confine.syscalls import machine

_PR_GET_NO_NEW_PRIVS = 39
_LIMITS = Limits(cpu_seconds=5, memory_bytes=64 * 2**20)
_AF_INET, _SOCK_STREAM = 2, 1


def main(arguments: list[str]) -> None:
    """Print the report for `rules` (JSON) and `canary`, a file outside of every listed folder."""
    rules, canary = Rules.from_json(arguments[0]), arguments[1]
    confinement = Confinement(rules)
    signals = confinement.enclose()
    walls = _inside(confinement, lambda: _walls(rules, canary))
    walls["an attack's system call kills"] = _killed(confinement, "ptrace")
    if rules.level >= Level.NAMESPACES:
        walls["own process and network namespaces"] = os.getpid() == 1 and _interfaces() <= {"lo"}
    print(json.dumps({"abi": confinement.abi, "signals": signals, "walls": walls}))


def _walls(rules: Rules, canary: str) -> dict[str, bool]:
    number = machine().numbers["socket"]
    walls = {
        "no sockets": _fails(lambda: syscall("socket", number, _AF_INET, _SOCK_STREAM, 0)),
        "no new processes": _fails(_start_process),
        "no way to new rights": prctl(_PR_GET_NO_NEW_PRIVS) == 1,
        "memory is bounded": _fails(lambda: mmap.mmap(-1, 2 * _LIMITS.memory_bytes)),
        "no signals to others": _fails(lambda: os.kill(os.getppid(), 0)),
    }
    if rules.level >= Level.LANDLOCK:
        walls["no reading outside"] = _fails(lambda: _touch(canary, os.O_RDONLY))
        walls["no writing outside"] = _fails(lambda: _touch(canary + ".new", os.O_CREAT | os.O_WRONLY))
        walls["reading and writing where allowed"] = not _fails(lambda: _use(rules))
    return walls


def _inside(confinement: Confinement, act: Callable[[], dict[str, bool]]) -> dict[str, bool]:
    """Return what `act` finds in a confined child; no walls if the child fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            confinement.apply(_LIMITS)
            os.write(writing, json.dumps(act()).encode())
        except OSError as error:
            print(f"confining a process failed: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answers:
        answer = answers.read()
    os.waitpid(child, 0)
    found: dict[str, bool] = json.loads(answer) if answer else {}
    return found


def _killed(confinement: Confinement, call: str) -> bool:
    child = os.fork()
    if child == 0:
        try:
            confinement.apply(_LIMITS)
            syscall(call, machine().numbers[call], 0, 0, 0, 0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and signal.Signals(os.WTERMSIG(status)) == SECURITY_SIGNAL


def _fails(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return True
    return False


def _start_process() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _touch(path: str, flags: int) -> None:
    os.close(os.open(path, flags))


def _use(rules: Rules) -> None:
    for folder in rules.readable:
        if os.path.isdir(folder):
            os.listdir(folder)
    for folder in rules.writable:
        _touch(f"{folder}/probe", os.O_CREAT | os.O_WRONLY)
        os.unlink(f"{folder}/probe")


def _interfaces() -> set[str]:
    with open("/proc/net/dev") as file:
        return {line.split(":")[0].strip() for line in file if ":" in line}


if __name__ == "__main__":
    main(sys.argv[1:])
