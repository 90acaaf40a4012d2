"""Which system calls a candidate may make, by allow-list, and how every other one is answered.

* Allowed: what CPython with threads needs (`function`), and shells, compilers and their programs (`command`).
* KILL, seen as status SECURITY: calls that only an attack makes (ptrace, mounts, namespaces, bpf, keys …) and
  every call of a foreign ABI (32-bit, x32).
* EACCES, EPERM, ENOTTY, ENOSYS …: what honest programs try and can do without. Sockets get EACCES, changes of
  identity, of priority and of others' files EPERM, requests to devices ENOTTY.
* Pretended success, only where a run shares its user: setting a file's times, which archivers insist on.
* Everything else, calls of future kernels included: ENOSYS, as on an older kernel; libraries then fall back.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass

from posttrain.sandbox.confine import allowed
from posttrain.sandbox.confine.bpf import (
    ALLOW,
    KILL_PROCESS,
    Rule,
    answer_errno,
    assemble,
    find_values,
)
from posttrain.sandbox.confine.kernel import syscall
from posttrain.sandbox.confine.levels import Profile
from posttrain.sandbox.confine.syscalls import Architecture, machine

_SET_MODE_FILTER = 1
_FLAG_TSYNC = 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else keeps a candidate in, so that the filter need not.

    signals: signals reach only the run's own processes (Landlock scope, a process namespace, or its own user)
    files: changing modes reaches only the run's own files (its own user, or read-only mounts)
    times: changing times does so too; anyone who may write to a file may, so its own user is not enough
    truncation: Landlock governs truncating files (ABI 3 or newer)
    """

    signals: bool
    files: bool
    truncation: bool
    times: bool = False


def rules(profile: Profile, around: Surroundings) -> dict[str, Rule]:
    """Return how each named call is answered; what is not named gets `DEFAULT`."""
    table = {name: Rule(KILL_PROCESS) for name in allowed.ATTACKS}
    table |= {name: Rule(answer_errno(code)) for code, names in allowed.REFUSED.items() for name in names}
    table |= {name: Rule(ALLOW) for name in allowed.ALLOWED}
    table |= allowed.FILTERED
    table |= allowed.opening(around.truncation)
    if around.files:
        table |= {name: Rule(ALLOW) for name in allowed.FILE_MODES}
    if around.times:
        table |= {name: Rule(ALLOW) for name in allowed.FILE_TIMES}
    if profile == "command":
        table |= {name: Rule(ALLOW) for name in allowed.PROCESSES} | allowed.CLONE_PROCESS
    if profile == "command" and around.signals:
        table |= dict.fromkeys(allowed.SIGNALS, allowed.NOT_THE_FIRST)
    return table


DEFAULT = Rule(answer_errno(errno.ENOSYS))


class Filter:
    """A filter prepared once; `enter` binds all threads of the calling process to it for good."""

    def __init__(
        self, profile: Profile, around: Surroundings, architecture: Architecture | None = None
    ) -> None:
        known = architecture or machine()
        named = rules(profile, around)
        numbered = {known.numbers[name]: rule for name, rule in named.items() if name in known.numbers}
        self.program = assemble(numbered, DEFAULT, known.audit, known.first_foreign)
        self._own_process = find_values(self.program, allowed.OWN_PROCESS)

    def for_process(self, process: int) -> bytes:
        """Return the filter's bytes with `process` as the one that may be signalled."""
        program = bytearray(self.program)
        for at in self._own_process:
            struct.pack_into("=I", program, at, process)
        return bytes(program)

    def enter(self, process: int) -> None:
        """Bind the calling process, whose id is `process`; needs no_new_privs."""
        code = ctypes.create_string_buffer(self.for_process(process))
        length = len(self.program) // 8
        program = ctypes.create_string_buffer(struct.pack("@HP", length, ctypes.addressof(code)))
        left_out = syscall("seccomp", machine().numbers["seccomp"], _SET_MODE_FILTER, _FLAG_TSYNC, program)
        if left_out:
            raise OSError(f"thread {left_out} of process {process} stayed outside of the filter")
