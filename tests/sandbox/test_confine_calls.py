"""Every system call from inside: what kills, what is refused and how; nothing unknown gets through."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import Outcome, Setting, tried
from settings import CHECKED, HARDEST

from posttrain.sandbox.confine.syscalls import machine

KILLING = """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig fsmount fspick
    mount_setattr swapon swapoff quotactl bpf keyctl add_key request_key perf_event_open userfaultfd
    open_by_handle_at init_module finit_module delete_module kexec_load reboot acct vhangup
    settimeofday clock_settime
"""
REFUSED = {
    "EACCES": "socket connect bind listen accept accept4",
    "EPERM": """
        setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid setgroups capset
        fchown fchownat truncate name_to_handle_at execve setpgid setsid kill tkill tgkill rt_sigqueueinfo
        pidfd_open pidfd_send_signal setpriority ioprio_set sched_setaffinity sched_setscheduler
        sched_setparam sched_setattr mbind set_mempolicy migrate_pages move_pages mlock mlock2 mlockall
        syslog sethostname setdomainname adjtimex clock_adjtime sync syncfs setrlimit setsockopt seccomp
        landlock_create_ruleset landlock_add_rule landlock_restrict_self clone
    """,
    "ENOTSUP": "fallocate getxattr setxattr fsetxattr lremovexattr listxattr",
    "ENOSYS": """
        io_uring_setup io_uring_enter io_uring_register io_setup memfd_create memfd_secret shmget shmat msgget
        semget mq_open inotify_init1 fanotify_init execveat openat2 clone3 splice tee vmsplice
        process_mrelease membarrier pkey_alloc get_robust_list remap_file_pages cachestat lsm_get_self_attr
    """,
}
ARGUMENTS_REFUSED = {
    "'personality', 0x0400000": "EPERM",  # READ_IMPLIES_EXEC
    "'prctl', 1, 0": "EPERM",  # to outlive the worker
    "'prctl', 4, 1": "EPERM",  # to be read by others
    "'prctl', 22, 1": "EPERM",  # another seccomp mode
    "'prctl', 36, 1": "EPERM",  # to adopt orphans
    "'prlimit64', WORKER, 7, 0, b'x' * 16": "EPERM",
    "'prlimit64', WORKER, 7, b'0' * 16, 0": "EPERM",
    "'prlimit64', 0, 4, bytes(16), 0": "EPERM",  # RLIMIT_CORE 0 would let crash handlers run
    "'kill', WORKER, 0": "EPERM",
    "'kill', WORKER, 9": "EPERM",
    "'kill', -1, 9": "EPERM",
    "'kill', 0, 9": "EPERM",
    "'tgkill', WORKER, WORKER, 9": "EPERM",
    "'rt_sigqueueinfo', WORKER, 9, bytes(128)": "EPERM",
    "'sched_setaffinity', 0, 8, b'1' * 8": "EPERM",
    "'setpriority', 2, 0, 19": "EPERM",
    "'clone', 17, 0": "EPERM",
    "'clone', 0x8000 | 17, 0": "EPERM",  # CLONE_PARENT
    "'sendto', 1, b'x', 1, 0, b'address', 7": "EACCES",
    "'mknodat', -100, b'device', 0o020666, 0x0103": "EPERM",
    "'mknodat', -100, b'device', 0o060666, 0x0700": "EPERM",
    "'mknodat', -100, b'socket', 0o140666, 0": "EPERM",
    "'openat', -100, b'/dev/null', 3": "EACCES",
}
NAMESPACES = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
X32_GETPID = 0x40000000 + 39


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_calls_that_only_attacks_make_kill_the_process(setting: Setting) -> None:
    names = KILLING.split()
    found = tried(setting, [f"call({name!r})" for name in names])
    assert {n: o for n, o in zip(names, found, strict=True) if o != Outcome("SIGSYS", "")} == {}


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_a_new_namespace_kills_in_whatever_call_it_is_asked_for(setting: Setting) -> None:
    snippets = [f"call('clone', {flag} | 17, 0)" for flag in NAMESPACES]
    snippets += [f"call('unshare', {flag})" for flag in NAMESPACES]
    assert set(tried(setting, snippets, "command")) == {Outcome("SIGSYS", "")}


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_other_unneeded_calls_fail_with_an_error_that_programs_expect(setting: Setting) -> None:
    expected = {repr(name): error for error, names in REFUSED.items() for name in names.split()}
    expected |= ARGUMENTS_REFUSED
    (outcome,) = tried(setting, ["\n".join(f"call({arguments})" for arguments in expected)])
    assert dict(zip(expected, outcome.printed.split(), strict=True)) == expected


def test_numbers_without_a_name_are_unknown_calls() -> None:
    # The kernel answers its own uretprobe (335) and uprobe (336) with SIGILL before any filter, on x86-64.
    unnamed = sorted(set(range(600)) - {335, 336} - set(machine().numbers.values()))
    assert len(unnamed) > 100
    code = f"""
import ctypes, errno
library = ctypes.CDLL(None, use_errno=True)
for number in {unnamed}:
    assert library.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS, number
"""
    assert tried(HARDEST, [code]) == [Outcome("0", "")]


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_no_family_of_sockets_can_be_opened(setting: Setting) -> None:
    code = """
for family in range(1, 47):
    for kind in (1, 2, 3, 5):
        assert call("socket", family, kind, 0) == -1
        if (family, kind) not in ((1, 1), (1, 5)):
            assert call("socketpair", family, kind, 0, bytes(8)) == -1
"""
    (outcome,) = tried(setting, [code], "command")
    assert outcome.ended == "0"
    assert set(outcome.printed.split()) == {"EACCES"}


def test_a_connected_pair_works_but_sends_to_no_address() -> None:
    code = """
import socket
one, other = socket.socketpair()
one.sendall(b"hello")
assert other.recv(5) == b"hello"
acts = [
    lambda: one.sendto(b"x", "\\0abstract"), lambda: one.sendmsg([b"x"], [], 0, "\\0abstract"),
    lambda: one.connect("\\0abstract"), lambda: one.bind("\\0abstract"), lambda: one.listen(1),
    lambda: one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
]
for act in acts:
    try:
        act()
        print("got through")
    except OSError as error:
        print(error.errno)
"""
    (outcome,) = tried(HARDEST, [code])
    assert outcome == Outcome("0", "\n".join(["13", "13", "13", "13", "13", "1", "13"]))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_foreign_system_call_abis_kill_the_process(setting: Setting) -> None:
    interrupt = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
"""
    x32 = f"import ctypes; print(ctypes.CDLL(None).syscall({X32_GETPID}))"
    assert tried(setting, [interrupt, x32], "command") == [Outcome("SIGSYS", "")] * 2


def test_device_requests_are_answered_as_by_something_that_is_no_terminal() -> None:
    # TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCSPGRP, FIOSETOWN, SIOCSPGRP, TIOCSETD, FICLONE, TIOCSTI + a high bit
    requests = [0x5412, 0x541C, 0x540E, 0x5410, 0x8901, 0x8902, 0x5423, 0x40049409, 0x5412 | 1 << 32]
    (outcome,) = tried(HARDEST, ["\n".join(f"call('ioctl', 0, {request}, b'x')" for request in requests)])
    assert outcome.printed.split() == ["ENOTTY"] * len(requests)


def test_descriptor_controls_that_reach_others_are_refused() -> None:
    controls = [8, 10, 15, 1024, 1026, 1031]  # SETOWN, SETSIG, SETOWN_EX, SETLEASE, NOTIFY, SETPIPE_SZ
    (outcome,) = tried(HARDEST, ["\n".join(f"call('fcntl', 1, {control}, WORKER)" for control in controls)])
    assert outcome.printed.split() == ["EPERM"] * len(controls)
