"""Attacks on other processes and on the kernel's walls: signals, system calls, namespaces, privileges, scheduling."""
# ruff: noqa: E501 (programs)

from __future__ import annotations

import platform

from .attack import SEVERAL, Attack, command, probe, python, shell

KIND = "isolation"

SIGNALS = (
    *(attack for who in ("@pid@", "@host@", "os.getppid()", "1") for attack in probe(
        f"signal {who.strip('@')}", KIND, f"""
# ruff: noqa: E501 (programs)
for number in (0, 19, 9):
    attempt(f"kill {{number}}", lambda: os.kill({who}, number) is None)
attempt("pidfd", lambda: syscall(424, checked(libc.syscall(434, {who}, 0)) and 3, 9, 0, 0))
attempt("tgkill", lambda: syscall(234, {who}, {who}, 9))
attempt("tkill", lambda: syscall(200, {who}, 9))
attempt("sigqueue", lambda: checked(libc.sigqueue({who}, 9, 0)))
""")),
    *(attack for who in ("-1", "0", "-os.getpgid(os.getppid())", "-@host@") for attack in probe(
        f"signal the group {who}", KIND, f"os.kill({who}, 9)", finishes=False)),
    *probe("have a signal sent by a descriptor's owner", KIND, """
import fcntl, signal
def own():
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(r, fcntl.F_SETOWN, @pid@)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
try: own()
except OSError as error: print("held", error)
def own_extended():
    r, w = os.pipe()
    fcntl.fcntl(r, 15, __import__("struct").pack("ii", 1, @pid@))
    fcntl.fcntl(r, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
try: own_extended()
except OSError as error: print("held", error)
"""),
    *probe("change another process's limits", KIND, """
import resource
for who in (@pid@, @host@, os.getppid()):
    attempt(f"limits {who}", lambda: resource.prlimit(who, resource.RLIMIT_NOFILE, (3, 3)))
    attempt(f"affinity {who}", lambda: os.sched_setaffinity(who, {0}) is None)
    attempt(f"priority {who}", lambda: os.setpriority(os.PRIO_PROCESS, who, 19) is None)
    attempt(f"scheduler {who}", lambda: os.sched_setscheduler(who, os.SCHED_IDLE, os.sched_param(0)) is None)
    attempt(f"score {who}", lambda: writes(f"/proc/{who}/oom_score_adj"))
    attempt(f"process group {who}", lambda: os.setpgid(who, 0) is None)
"""),
    *probe("raise its own limits", KIND, """
import resource
for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CORE"):
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    attempt(name, lambda: resource.setrlimit(number, (resource.RLIM_INFINITY,) * 2) is None)
    if hard == resource.RLIM_INFINITY: escaped(f"{name} is not limited")
attempt("nice", lambda: os.nice(-5) is not None)
attempt("realtime", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) is None)
attempt("out of memory score", lambda: writes("/proc/self/oom_score_adj"))
"""),
    Attack("stop the parent", KIND, python("os.kill(os.getppid(), 19)"), finishes=False),
    Attack("hold all of the parent's pipes full", KIND, python("""
import stat
for number in range(3, 64):
    try: found = os.fstat(number)
    except OSError: continue
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
        try:
            os.set_blocking(number, False)
            while True: os.write(number, b"x" * 65536)
        except OSError: pass
"""), ends=frozenset({"OK", "RUNTIME_ERROR", "SECURITY", "TAMPERED", "OUTPUT"})),
    Attack("close every descriptor", KIND, python("os.closerange(0, 1024)\nimport time\ntime.sleep(0.05)"),
           finishes=False, ends=frozenset({"OK", "RUNTIME_ERROR", "TAMPERED"})),
)  # fmt: skip

# What no solution needs, by its number on x86-64, with arguments that would be understood.
CALLS = {
    "acct": (163, 0), "add_key": (248, b"user", b"k", b"v", 1, -4), "adjtimex": (159, 0), "bpf": (321, 0, 0, 0),
    "capset": (126, 0, 0), "chroot": (161, b"."), "clock_adjtime": (305, 0, 0), "clock_settime": (227, 0, 0),
    "clone new user": (56, 0x10000000 | 17, 0, 0, 0, 0), "clone3": (435, 0, 0),
    "create_module": (174, b"m", 4096), "delete_module": (176, b"m", 0), "fanotify_init": (300, 0, 0),
    "finit_module": (313, 0, b"", 0), "fsconfig": (431, 0, 0, 0, 0, 0), "fsmount": (432, 0, 0, 0),
    "fsopen": (430, b"tmpfs", 0), "fspick": (433, -100, b".", 0), "get_mempolicy": (239, 0, 0, 0, 0, 0),
    "init_module": (175, b"", 0, b""), "io_setup": (206, 1, 0), "io_uring_enter": (426, 0, 0, 0, 0, 0),
    "io_uring_register": (427, 0, 0, 0, 0), "io_uring_setup": (425, 1, bytes(120)), "ioperm": (173, 0, 1, 1),
    "iopl": (172, 3), "ioprio_set": (251, 1, 0, 0), "kcmp": (312, 1, 1, 0, 0, 0),
    "kexec_file_load": (320, 0, 0, 0, 0, 0), "kexec_load": (246, 0, 0, 0, 0), "keyctl": (250, 0, -3, 0, 0, 0),
    "lookup_dcookie": (212, 0, 0, 0), "mbind": (237, 0, 0, 0, 0, 0, 0), "memfd_secret": (447, 0),
    "migrate_pages": (256, 0, 0, 0, 0), "mknod": (133, b"device", 0o20666, 0x103),
    "mount": (165, b"none", b".", b"tmpfs", 0, 0), "mount_setattr": (442, -100, b".", 0, 0, 0),
    "move_mount": (429, -100, b".", -100, b".", 0), "move_pages": (279, 0, 0, 0, 0, 0, 0),
    "name_to_handle_at": (303, -100, b".", bytes(200), bytes(8), 0), "nfsservctl": (180, 0, 0, 0),
    "open_by_handle_at": (304, -100, bytes(200), 0), "open_tree": (428, -100, b".", 1),
    "perf_event_open": (298, bytes(128), 0, -1, -1, 0), "personality": (135, 0x0040000),
    "pivot_root": (155, b".", b"."), "pkey_alloc": (330, 0, 0), "process_madvise": (440, 0, 0, 0, 0, 0),
    "process_mrelease": (448, 0, 0), "process_vm_writev": (311, 1, 0, 0, 0, 0, 0), "quotactl": (179, 0, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0), "remap_file_pages": (216, 0, 0, 0, 0, 0), "request_key": (249, b"user", b"k", 0, -4),
    "sched_setattr": (314, 0, bytes(56), 0), "set_mempolicy": (238, 0, 0, 0), "setdomainname": (171, b"x", 1),
    "setfsuid then file": (122, 0), "sethostname": (170, b"x", 1), "setns": (308, 0, 0), "settimeofday": (164, 0, 0),
    "setuid": (105, 0), "setresuid": (117, 0, 0, 0), "setgid": (106, 0), "setgroups": (116, 0, 0),
    "swapoff": (168, b"x"), "swapon": (167, b"x", 0), "sysfs": (139, 3), "syslog": (103, 10, 0, 0),
    "uselib": (134, b"x"), "umount2": (166, b"/", 0), "unshare user": (272, 0x10000000),
    "unshare mounts": (272, 0x00020000), "unshare network": (272, 0x40000000), "userfaultfd": (323, 1),
    "ustat": (136, 0, 0), "vhangup": (153,), "vmsplice": (278, 1, 0, 0, 0), "a call of the future": (1000, 0),
}  # fmt: skip
REFUSED = "{1, 38, 13}"  # EPERM, ENOSYS, EACCES
NEUTRAL = ("setfsuid then file",)

SYSTEM_CALLS = tuple(
    attack
    for name, (number, *arguments) in CALLS.items()
    if platform.machine() == "x86_64" and name not in NEUTRAL
    for attack in probe(f"call {name}", KIND, f"""
result = libc.syscall({number}, {", ".join(map(repr, arguments))})
if result >= 0 or ctypes.get_errno() not in {REFUSED}:
    escaped(f"{number} gave {{result}}, errno {{ctypes.get_errno()}}")
""")
)  # fmt: skip

MACHINE_CODE = """
import mmap
def machine_code(code):
    room = mmap.mmap(-1, 4096, prot=7)
    room.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()
"""

FOREIGN = tuple(
    attack
    for name, source in {
        "a 32-bit system call": "attempt('int 0x80 getpid', lambda: machine_code("
        "b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3') > 0)",
        "a 32-bit fork": "attempt('int 0x80 fork', lambda: machine_code("
        "b'\\xb8\\x02\\x00\\x00\\x00\\xcd\\x80\\xc3') >= 0)",
        "an x32 system call": "attempt('x32 getpid', lambda: syscall(0x40000000 | 39) )",
        "an x32 exec": "attempt('x32 execve', lambda: syscall(0x40000000 | 520, 0, 0, 0))",
        "a number beyond 32 bits": "attempt('high', lambda: libc.syscall(ctypes.c_long((1 << 32) | 39)) not in "
        "(-1, os.getpid()))",
        "a far jump to 32-bit code": "attempt('int 0x80 socket', lambda: machine_code("
        "b'\\xb8\\x67\\x01\\x00\\x00\\xbb\\x02\\x00\\x00\\x00\\xb9\\x01\\x00\\x00\\x00\\x31\\xd2\\xcd\\x80\\xc3') >= 0)",
    }.items()
    if platform.machine() == "x86_64"
    for attack in probe(name, KIND, MACHINE_CODE + source)
)  # fmt: skip

WALLS = (
    *probe("privileges", KIND, """
if os.getuid() == 0 or os.geteuid() == 0: escaped("runs as root")
if os.getgid() == 0 or 0 in os.getgroups(): escaped("in root's group")
if libc.prctl(39, 0, 0, 0, 0) != 1: escaped("may gain privileges")
if libc.prctl(21, 0, 0, 0, 0) != 2: escaped("no filter of system calls")
for capability in range(41):
    if libc.prctl(23, capability, 0, 0, 0) == 1 and libc.prctl(47, 1, capability, 0, 0) == 1:
        escaped(f"capability {capability}")
"""),
    Attack("set-user-id programs", KIND, shell("""
for program in su sudo mount umount passwd newgrp ping pkexec; do
  path=$(command -v $program) && echo | "$path" -c id 2>/dev/null | grep uid=0 && echo "ESCAPED $program"
done
id -u | grep -qx 0 && echo ESCAPED root
true
"""), limits=SEVERAL),
    *probe("namespaces by clone", KIND, """
for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00000080):
    child = libc.syscall(56, flag | 17, 0, 0, 0, 0)
    if child == 0: os._exit(0)
    if child > 0: escaped(hex(flag))
"""),
    *probe("control groups", KIND, """
for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"):
    attempt("procs", lambda: open(folder + "/cgroup.procs", "w").write(str(os.getpid())))
    attempt("mkdir", lambda: os.mkdir(folder + "/@mark@") is None)
    attempt("limit", lambda: writes(folder + "/memory.limit_in_bytes"))
"""),
    *probe("kernel settings", KIND, """
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/self/uid_map", "/proc/sys/vm/drop_caches",
             "/sys/power/state", "/proc/self/setgroups", "/proc/self/timerslack_ns", "/proc/self/clear_refs"):
    attempt(path, lambda: os.open(path, os.O_WRONLY) >= 0)
"""),
    *probe("type into the terminal", KIND, """
import fcntl
for number in (0, 1, 2):
    attempt(f"TIOCSTI {number}", lambda: fcntl.ioctl(number, 0x5412, b"x") == 0)
    attempt(f"TIOCLINUX {number}", lambda: fcntl.ioctl(number, 0x541C, b"\\x02") == 0)
attempt("new session", lambda: fcntl.ioctl(0, 0x540E, 0) == 0)
"""),
    *probe("requests to devices", KIND, """
import fcntl
for path in ("/dev/null", "/dev/zero", "/dev/urandom"):
    number = os.open(path, os.O_RDONLY)
    for request in (0x5201, 0x40045201, 0x5204, 0x40085203, 0x5207, 0x1261, 0xAE01):
        try: fcntl.ioctl(number, request, bytearray(8))
        except OSError as error:
            if error.errno not in (1, 13, 22, 25, 38): escaped(f"{path} {request:#x} {error}")
        else: escaped(f"{path} {request:#x}")
"""),
    *probe("attributes of its files", KIND, """
import fcntl
with open("mine", "w") as file:
    attempt("immutable", lambda: fcntl.ioctl(file.fileno(), 0x40086602, b"\\x10" + bytes(7)) == 0)
    attempt("set-user-id", lambda: (os.fchmod(file.fileno(), 0o6777), os.fstat(file.fileno()).st_mode & 0o6000)[1]
            and os.getuid() == 0)
    attempt("owner", lambda: os.fchown(file.fileno(), 0, 0) is None)
    attempt("capability", lambda: os.setxattr(file.fileno(), "security.capability", bytes(20)) is None)
    attempt("trusted", lambda: os.setxattr(file.fileno(), "trusted.x", b"x") is None)
"""),
    *probe("undo the filter", KIND, """
import struct
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
filter = ctypes.create_string_buffer(struct.pack("HP", 1, ctypes.addressof(program)))
libc.syscall(317, 1, 0, filter)
libc.prctl(22, 2, filter)
libc.prctl(38, 0, 0, 0, 0)
libc.prctl(4, 1, 0, 0, 0)
attempt("still", lambda: reads("@secret@"))
import socket
attempt("socket", lambda: bool(socket.socket()))
""", finishes=False),
    *probe("undo the file rules", KIND, """
libc.syscall(446, -1, 0)
for flags in (1, 2, 4, 8): libc.syscall(446, -1, flags)
attempt("still", lambda: reads("@secret@"))
"""),
    *probe("be watched by a filter's listener", KIND, """
import struct
program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FC00000))
filter = ctypes.create_string_buffer(struct.pack("HP", 1, ctypes.addressof(program)))
attempt("listener", lambda: libc.syscall(317, 1, 8, filter) > 0)
""", finishes=False),
    *probe("outlive the parent's death signal", KIND, """
libc.prctl(1, 0, 0, 0, 0)
libc.prctl(36, 1, 0, 0, 0)
"""),
    Attack("leave its group and session", KIND, command("""
attempt("fork", lambda: None)
child = os.fork()
if child == 0:
    os.setsid()
    libc.prctl(36, 1, 0, 0, 0)
    libc.prctl(15, b"@mark@", 0, 0, 0)
    import time
    if os.fork() == 0:
        while True: time.sleep(1)
    os._exit(0)
os.waitpid(child, 0)
"""), limits=SEVERAL),
)  # fmt: skip

ATTACKS = (*SIGNALS, *SYSTEM_CALLS, *FOREIGN, *WALLS)
