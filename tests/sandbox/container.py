"""Run a command as in an ordinary container: `python container.py COMMAND …`.

The command runs as user 65534 without groups and capabilities, under a filter that, like the default ones of
container runtimes, refuses namespaces, mounts, tracing, pidfd_getfd and the like. What Python needs is made
reachable first, as in an image. Started as an ordinary user, it keeps that user.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE))

from posttrain.sandbox.confine import identity, view  # noqa: E402
from posttrain.sandbox.confine.bpf import ALLOW, Clause, Rule, Test, answer_errno, assemble  # noqa: E402
from posttrain.sandbox.confine.kernel import syscall  # noqa: E402
from posttrain.sandbox.confine.syscalls import machine  # noqa: E402

NOBODY = 65534
NAMESPACES = 0x20000 | 0x7E000000
REFUSED = """
    unshare setns mount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
    ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd bpf perf_event_open userfaultfd
    keyctl add_key request_key open_by_handle_at name_to_handle_at
    io_uring_setup io_uring_enter io_uring_register
    init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct
    settimeofday clock_settime clock_adjtime quotactl iopl ioperm lookup_dcookie nfsservctl uselib vm86
""".split()  # noqa: SIM905
SET_MODE_FILTER = 1


def launching(*command: str) -> list[str]:
    """Return the words that run `command` in the simulated container."""
    return [sys.executable, __file__, *command]


def filter_bytes() -> bytes:
    known = machine()
    refused = Rule(answer_errno(errno.EPERM))
    rules = {known.numbers[name]: refused for name in REFUSED if name in known.numbers}
    no_namespace = Clause(ALLOW, (Test(0, (0,), NAMESPACES),))
    rules[known.numbers["clone"]] = Rule(answer_errno(errno.EPERM), (no_namespace,))
    rules[known.numbers["clone3"]] = Rule(answer_errno(errno.ENOSYS))
    return assemble(rules, Rule(ALLOW), known.audit, known.first_foreign)


def install_filter() -> None:
    code = ctypes.create_string_buffer(filter_bytes())
    program = ctypes.create_string_buffer(struct.pack("@HP", (len(code) - 1) // 8, ctypes.addressof(code)))
    syscall("seccomp", machine().numbers["seccomp"], SET_MODE_FILTER, 0, program)


def enter() -> None:
    """Become the container's process; as root the filter goes in first, so nothing is lost by it."""
    if os.geteuid() == 0:
        needed = [sys.prefix, sys.base_prefix, str(SOURCE.parent), *filter(os.path.isabs, sys.path)]
        view.reveal(needed)
        install_filter()
        identity.shrink_bounds()
        identity.become(NOBODY)
    else:
        identity.forbid_new_privileges()
        install_filter()


if __name__ == "__main__":
    enter()
    os.execvp(sys.argv[1], sys.argv[1:])
