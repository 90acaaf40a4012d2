"""Who a candidate is to the kernel: a user of its own without groups and capabilities, for good."""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from posttrain.sandbox.confine.kernel import (
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_CAPBSET_DROP,
    PR_SET_NO_NEW_PRIVS,
    prctl,
    syscall,
)
from posttrain.sandbox.confine.syscalls import machine

_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)  # version 3, the calling thread
_NO_CAPABILITIES = bytes(24)
_NUM_CAPABILITIES = 64


FIRST_USER = 60000
"""Users from here on are for candidates; by custom no account has them."""


def own_user(worker: int) -> int | None:
    """Return the user for candidates of a worker (from 0); None where this process cannot become it."""
    return FIRST_USER + worker if can_become(FIRST_USER + worker) else None


def can_become(uid: int) -> bool:
    """Tell whether this process is a root that may become user and group `uid`.

    The root of a small user namespace (rootless containers, `unshare -r`) may not: outside of it, it is an
    ordinary user.
    """
    if os.geteuid() != 0:
        return False
    with open("/proc/self/setgroups") as file:
        return file.read().strip() == "allow" and all(_maps(kind, uid) for kind in ("uid", "gid"))


def _maps(kind: str, number: int) -> bool:
    with open(f"/proc/self/{kind}_map") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    return any(first <= number < first + count for first, _, count in rows)


def become(uid: int) -> None:
    """Turn this root process into user and group `uid` alone; raise OSError if that fails."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (uid, uid, uid) or os.getgroups():
        raise PermissionError(f"could not become user {uid}")


def give_up_privileges() -> None:
    """Drop every capability and forbid gaining any by running a program."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    syscall("capset", machine().numbers["capset"], _CAPABILITY_HEADER, _NO_CAPABILITIES)
    forbid_new_privileges()


def forbid_new_privileges() -> None:
    """Make sure that no program run from here on gains rights by its set-user bits."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def shrink_bounds() -> None:
    """Drop the capabilities that programs could gain, while this process still may."""
    with suppress(OSError):  # past the last capability, or without the right to drop any
        for capability in range(_NUM_CAPABILITIES):
            prctl(PR_CAPBSET_DROP, capability)
