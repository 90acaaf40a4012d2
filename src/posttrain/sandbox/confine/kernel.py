"""Direct system calls through the C library, with errors as OSError; no binding to install.

Stands alone and imports only the standard library: warm workers load it, and every candidate runs through it.
"""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.restype = ctypes.c_int
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_libc.mallopt.restype = ctypes.c_int

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_M_ARENA_MAX = -8


def syscall(name: str, number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Call the kernel and return its answer; an error becomes OSError with the call's name."""
    widened = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *widened))
    if result < 0:
        raise _failure(name)
    return result


def prctl(option: int, second: int = 0, third: int = 0, fourth: int = 0, fifth: int = 0) -> int:
    """Change or read a property of this process; an error becomes OSError."""
    result = int(_libc.prctl(option, second, third, fourth, fifth))
    if result < 0:
        raise _failure(f"prctl {option}")
    return result


def limit_malloc_arenas(count: int) -> None:
    """Let the C library reserve address space for `count` arenas at most.

    Each arena reserves 64 MiB, which would count against an address-space limit once a thread starts.
    """
    _libc.mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(count))


def _failure(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")
