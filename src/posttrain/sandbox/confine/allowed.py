"""The system calls by name, sorted by how the filter answers them; `seccomp.py` explains the answers.

A name that an architecture does not have is left out there, so the lists serve all of them.
"""

from __future__ import annotations

import errno

from posttrain.sandbox.confine.bpf import ALLOW, KILL_PROCESS, Clause, Rule, Test, answer_errno

OWN_PROCESS = 0x7E57AB1E
"""Stands for the candidate's process id in a prepared filter."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED = _names(
    """
    read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 close close_range lseek _llseek
    stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat getcwd chdir fchdir
    statfs fstatfs getdents getdents64 dup dup2 dup3 pipe pipe2 poll ppoll select pselect6 flock
    fsync fdatasync ftruncate fadvise64 readahead copy_file_range sendfile umask
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
    epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2
    mmap munmap mremap mprotect madvise mincore msync brk
    futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list set_tid_address rseq sched_yield
    rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack pause
    restart_syscall signalfd signalfd4 alarm getitimer setitimer
    timer_create timer_settime timer_gettime timer_getoverrun timer_delete
    timerfd_create timerfd_settime timerfd_gettime
    nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
    getpid getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups getpgrp getpgid getsid
    getrlimit getrusage getpriority uname sysinfo getcpu getrandom capget
    sched_getaffinity sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min
    exit exit_group wait4 waitid
    getsockopt getsockname getpeername recvfrom recvmsg recvmmsg shutdown
    """
)

PROCESSES = ("execve", "fork", "vfork", "setpgid", "setsid")
SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
FILE_MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2")
FILE_TIMES = ("utime", "utimes", "futimesat", "utimensat")

ATTACKS = _names(
    """
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd
    mount umount2 pivot_root chroot unshare setns open_tree open_tree_attr move_mount fsopen fsconfig fsmount
    fspick mount_setattr statmount listmount swapon swapoff quotactl quotactl_fd
    bpf keyctl add_key request_key perf_event_open userfaultfd open_by_handle_at
    init_module finit_module delete_module kexec_load kexec_file_load reboot iopl ioperm acct vhangup
    settimeofday clock_settime nfsservctl lookup_dcookie uselib
    """
)

REFUSED: dict[int, tuple[str, ...]] = {
    0: FILE_TIMES,
    # Messages could carry descriptors, and files on the way are seen by nobody.
    errno.EACCES: ("socket", "connect", "bind", "listen", "accept", "accept4", "sendmsg", "sendmmsg"),
    errno.EOPNOTSUPP: (
        "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "setxattr",
        "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
        "fallocate",  # takes disk without taking time; the C library then writes instead
    ),
    errno.EPERM: (
        "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
        "setgroups", "capset", "chown", "lchown", "fchown", "fchownat", "truncate", "name_to_handle_at",
        *FILE_MODES, *PROCESSES, *SIGNALS, "pidfd_open", "pidfd_send_signal",
        "setpriority", "ioprio_set", "sched_setaffinity", "sched_setscheduler", "sched_setparam",
        "sched_setattr", "mbind", "set_mempolicy", "migrate_pages", "move_pages", "mlock", "mlock2",
        "mlockall", "syslog", "sethostname", "setdomainname", "adjtimex", "clock_adjtime", "sync", "syncfs",
        "setrlimit", "setsockopt", "seccomp", "landlock_create_ruleset", "landlock_add_rule",
        "landlock_restrict_self",
    ),
}  # fmt: skip


def _only(*tests: Test, otherwise: int) -> Rule:
    """Allow a call if all tests hold."""
    return Rule(otherwise, (Clause(ALLOW, tests),))


_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 1, 5, 0xF

_CLONE_THREAD = 0x10000
_CLONE_FOREIGN = 0x8000 | 0x2000  # CLONE_PARENT, a child of the worker's; CLONE_PTRACE, a tracee
_CLONE_NAMESPACES = 0x20000 | 0x7E000000

_IOCTLS = (
    0x5401,  # TCGETS: is this a terminal?
    0x5413,  # TIOCGWINSZ
    0x540F,  # TIOCGPGRP
    0x541B,  # FIONREAD
    0x5421,  # FIONBIO
    0x5450,  # FIONCLEX
    0x5451,  # FIOCLEX
)
# Duplicate, flags, locks, sizes; not F_SETOWN and F_SETSIG (signals to others), F_SETLEASE, F_SETPIPE_SZ.
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032, 1034)
_PRCTLS = (
    2,  # PR_GET_PDEATHSIG
    3,  # PR_GET_DUMPABLE
    15,  # PR_SET_NAME
    16,  # PR_GET_NAME
    21,  # PR_GET_SECCOMP
    23,  # PR_CAPBSET_READ
    38,  # PR_SET_NO_NEW_PRIVS
    39,  # PR_GET_NO_NEW_PRIVS
    0x53564D41,  # PR_SET_VMA: names of memory areas
)
_ARCH_PRCTLS = (0x1001, 0x1002, 0x1003, 0x1004, 0x3001)
_PERSONALITIES = (0, 0xFFFFFFFF)  # the default one, and the question which it is
_RLIMIT_CORE = 4
_FILE_KINDS, _REGULAR, _FIFO = 0o170000, 0o100000, 0o010000

_OWN = Test(0, (OWN_PROCESS,))
NOT_THE_FIRST = Rule(ALLOW, (Clause(answer_errno(errno.EPERM), (Test(0, (1,)),)),))
"""Signals to any process that else can be reached, but not to process 1, which may be the worker."""


def _clone(allowed: Test) -> Rule:
    """Allow what `allowed` holds for; a new namespace kills, anything else is refused."""
    no_namespace = Test(0, (0,), _CLONE_NAMESPACES)
    refused = Clause(answer_errno(errno.EPERM), (no_namespace,))
    return Rule(KILL_PROCESS, (Clause(ALLOW, (allowed,)), refused))


FILTERED: dict[str, Rule] = {
    # A connected pair only: datagram sockets could be sent to any address later.
    "socketpair": _only(
        Test(0, (_AF_UNIX,)), Test(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE),
        otherwise=answer_errno(errno.EACCES),
    ),
    "sendto": _only(Test(4, (0,), wide=True), otherwise=answer_errno(errno.EACCES)),
    "clone": _clone(Test(0, (_CLONE_THREAD,), _CLONE_THREAD | _CLONE_FOREIGN | _CLONE_NAMESPACES)),
    # Its flags are in memory, out of the filter's sight; libraries fall back to clone.
    "clone3": Rule(answer_errno(errno.ENOSYS)),
    "ioctl": _only(Test(1, _IOCTLS), otherwise=answer_errno(errno.ENOTTY)),
    "fcntl": _only(Test(1, _FCNTLS), otherwise=answer_errno(errno.EPERM)),
    "prctl": _only(Test(0, _PRCTLS), otherwise=answer_errno(errno.EPERM)),
    "arch_prctl": _only(Test(0, _ARCH_PRCTLS), otherwise=answer_errno(errno.EINVAL)),
    "personality": _only(Test(0, _PERSONALITIES), otherwise=answer_errno(errno.EPERM)),
    "mknod": _only(Test(1, (0, _REGULAR, _FIFO), _FILE_KINDS), otherwise=answer_errno(errno.EPERM)),
    "mknodat": _only(Test(2, (0, _REGULAR, _FIFO), _FILE_KINDS), otherwise=answer_errno(errno.EPERM)),
    # Its own limits may be read, and lowered but for the one that keeps crash handlers away.
    "prlimit64": Rule(
        answer_errno(errno.EPERM),
        (
            Clause(ALLOW, (Test(0, (0, OWN_PROCESS)), Test(2, (0,), wide=True))),
            Clause(answer_errno(errno.EPERM), (Test(1, (_RLIMIT_CORE,)),)),
            Clause(ALLOW, (Test(0, (0,)),)),
        ),
    ),
    "kill": _only(_OWN, otherwise=answer_errno(errno.EPERM)),
    "tgkill": _only(_OWN, otherwise=answer_errno(errno.EPERM)),
    "rt_sigqueueinfo": _only(_OWN, otherwise=answer_errno(errno.EPERM)),
    "rt_tgsigqueueinfo": _only(_OWN, otherwise=answer_errno(errno.EPERM)),
}  # fmt: skip

CLONE_PROCESS = {"clone": _clone(Test(0, (0,), _CLONE_FOREIGN | _CLONE_NAMESPACES))}

_O_ACCMODE, _O_WRONLY, _O_RDWR, _O_TRUNC = 3, 1, 2, 0o1000


def opening(truncation_governed: bool) -> dict[str, Rule]:
    """Return the rules for opening files.

    Access mode 3 opens a file for control requests without the right to read or write it, so it is refused.
    Before Landlock governs truncation, opening for reading must not truncate.
    """
    denied = answer_errno(errno.EACCES)

    def rule(flags: int) -> Rule:
        writing = Clause(ALLOW, (Test(flags, (_O_WRONLY, _O_RDWR), _O_ACCMODE),))
        mask = _O_ACCMODE if truncation_governed else _O_ACCMODE | _O_TRUNC
        return Rule(denied, (writing, Clause(ALLOW, (Test(flags, (0,), mask),))))

    return {
        "open": rule(1),
        "openat": rule(2),
        "creat": Rule(ALLOW),
        "openat2": Rule(answer_errno(errno.ENOSYS)),
    }
