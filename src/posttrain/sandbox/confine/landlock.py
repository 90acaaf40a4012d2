"""Landlock: an unprivileged process takes file, socket and signal rights away from itself, for good.

A ruleset is prepared once per worker and entered by each candidate. The kernel's userspace-api/landlock page
says what a right means and from which ABI on it exists; a right that the kernel does not know is left out and
closed by the system call filter where it matters.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from posttrain.sandbox.confine.kernel import syscall
from posttrain.sandbox.confine.syscalls import machine

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (
    1 << bit for bit in range(6, 13)
)
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = (
    _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO | _MAKE_SYM
    | _REFER | _TRUNCATE
)  # fmt: skip
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_NET_ABI, _SCOPE_ABI = 4, 6
_BIND_AND_CONNECT_TCP = 0b11
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2

_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
TRUNCATION_ABI = 3
SIGNAL_SCOPE_ABI = _SCOPE_ABI


def kernel_abi() -> int:
    """Return the kernel's Landlock ABI, 0 where Landlock is missing or switched off."""
    try:
        number = machine().numbers["landlock_create_ruleset"]
        return syscall("landlock_create_ruleset", number, None, 0, _CREATE_VERSION)
    except OSError:
        return 0


class Ruleset:
    """A prepared set of rules; `enter` binds the calling thread to it for good.

    It handles every right that `abi` knows, so what no rule grants is denied.
    """

    def __init__(self, abi: int) -> None:
        self._rights = sum(rights for since, rights in _RIGHTS_BY_ABI.items() if since <= abi)
        network = _BIND_AND_CONNECT_TCP if abi >= _NET_ABI else 0
        scopes = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if abi >= _SCOPE_ABI else 0
        self.descriptor = _create(self._rights, network, scopes)

    def allow_reading(self, paths: Iterable[str]) -> None:
        """Let files and folders below `paths` be read and executed; missing ones are left out."""
        for path in paths:
            self._allow(path, _READ)

    def allow_writing(self, paths: Iterable[str]) -> None:
        """Let folders be written to: everything but sockets and devices may be made there."""
        for path in paths:
            self._allow(path, _WRITE)

    def allow_devices(self, paths: Iterable[str]) -> None:
        """Let character devices be read and written, without control requests."""
        for path in paths:
            if os.path.exists(path) and stat.S_ISCHR(os.stat(path).st_mode):
                self._allow(path, _DEVICE)

    def enter(self) -> None:
        """Confine the calling thread and all that it starts; needs no_new_privs."""
        enter(self.descriptor)

    def close(self) -> None:
        """Give the ruleset's descriptor back."""
        os.close(self.descriptor)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _FOR_FILES
            rule = ctypes.create_string_buffer(struct.pack("=Qi", rights & self._rights, descriptor))
            number = machine().numbers["landlock_add_rule"]
            syscall("landlock_add_rule", number, self.descriptor, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def signal_scope() -> int:
    """Return a ruleset's descriptor that only keeps signals and abstract sockets inside (ABI 6 or newer)."""
    return _create(0, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)


def enter(descriptor: int) -> None:
    """Confine the calling thread to a ruleset for good; needs no_new_privs."""
    syscall("landlock_restrict_self", machine().numbers["landlock_restrict_self"], descriptor, 0)


def _create(rights: int, network: int, scopes: int) -> int:
    words = struct.pack("=QQQ", rights, network, scopes)
    size = 24 if scopes else 16 if network else 8
    attributes = ctypes.create_string_buffer(words[:size], size)
    number = machine().numbers["landlock_create_ruleset"]
    return syscall("landlock_create_ruleset", number, attributes, size, 0)
