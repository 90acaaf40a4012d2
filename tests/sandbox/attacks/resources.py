"""Attacks that use the machine up: processes, threads, memory, output, disk, time, and what outlives a run."""
# ruff: noqa: E501 (programs)

from __future__ import annotations

from dataclasses import replace

from posttrain.protocols import Case, Limits, Program, Status

from .attack import QUICK, SEVERAL, SLEEPING, TRIED, Attack, Outcome, command, python, shell

CPU = frozenset[Status]({"CPU_TIMEOUT"})
WALL = frozenset[Status]({"WALL_TIMEOUT"})
LATE = frozenset[Status]({"CPU_TIMEOUT", "WALL_TIMEOUT"})
TOO_MUCH = frozenset[Status]({"MEMORY", "RUNTIME_ERROR", "SECURITY"})
FULL = frozenset[Status]({"DISK", "RUNTIME_ERROR", "CPU_TIMEOUT", "WALL_TIMEOUT"})
FLOOD = frozenset[Status]({"OUTPUT", "CPU_TIMEOUT", "WALL_TIMEOUT", "RUNTIME_ERROR"})
ANY = frozenset[Status]({
    "OK", "RUNTIME_ERROR", "CPU_TIMEOUT", "WALL_TIMEOUT", "MEMORY", "OUTPUT", "DISK", "SECURITY", "COMPILE_ERROR",
})  # fmt: skip
CRASH = frozenset[Status]({"RUNTIME_ERROR", "MEMORY", "CPU_TIMEOUT"})
MEBIBYTE = 2**20
BRIEF = replace(QUICK, cpu_seconds=0.3)
"""For loops in the warm interpreter: there is nothing to wait for."""


def little_memory(outcome: Outcome) -> bool:
    """Tell whether the peak stayed near the limit: half as much again, and what an interpreter needs."""
    # ruff: noqa: E501 (programs)
    return outcome.peak_memory_bytes <= 1.5 * QUICK.memory_bytes + 64 * MEBIBYTE


def little_output(outcome: Outcome) -> bool:
    """Tell whether no more came back than was allowed for both streams."""
    return len(outcome.stdout) + len(outcome.stderr) <= 2 * QUICK.output_bytes + 1024


def little_files(outcome: Outcome) -> bool:
    """Tell whether collected files kept to the disk limit."""
    return sum(map(len, outcome.files.values())) <= QUICK.disk_bytes


def printed(text: bytes) -> object:
    """Return a check that the program printed `text`."""
    return lambda outcome: text in outcome.stdout


def endless(name: str, program: Program, ends: frozenset[Status] = CPU, **settings: object) -> Attack:
    """Return an attack that never ends by itself."""
    return replace(
        Attack(name, "resources", program, ends=ends, finishes=False), **settings  # type: ignore[arg-type]
    )  # fmt: skip


def bomb(name: str, program: Program, ends: frozenset[Status], **settings: object) -> Attack:
    """Return an attack that takes all it can get of something."""
    return replace(
        Attack(name, "resources", program, ends=ends, finishes=False), **settings  # type: ignore[arg-type]
    )  # fmt: skip


FORKS = """
made = 0
for _ in range(500):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        import time
        time.sleep(600)
    made += 1
if made > 9:
    escaped(f"{made} processes")
"""

PROCESSES = (
    Attack("fork in the warm interpreter", "resources", python(
        "attempt('fork', os.fork)\nattempt('vfork', lambda: libc.vfork() >= 0 or checked(-1))\n"
        "attempt('spawn', lambda: os.posix_spawn('/bin/true', ['true'], {}))\n"
        "attempt('popen', lambda: os.system('true') == 0)\n"
    )),
    Attack("exec another program", "resources", python("attempt('exec', lambda: os.execv('/bin/true', ['true']))")),
    bomb("fork until refused", command(FORKS), ANY, limits=SEVERAL),
    bomb("fork for ever", command("while True:\n    try: os.fork()\n    except OSError: pass"), ANY, limits=SEVERAL),
    bomb("a shell's fork bomb", shell("b() { b | b & }; b; sleep 60"), ANY, limits=SEVERAL),
    bomb("a process that flees by forking", command(
        "while True:\n    try:\n        if os.fork(): os._exit(0)\n    except OSError: pass"
    ), ANY, limits=SEVERAL),
    bomb("threads without end", python("""
import threading, time
made = 0
try:
    while made < 5000:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
        made += 1
except RuntimeError:
    pass
if made >= 5000:
    escaped("5000 threads")
os._exit(3)
"""), ANY),
    bomb("zombies that nobody waits for", command("""
for _ in range(3000):
    try:
        if os.fork() == 0: os._exit(0)
    except OSError:
        break
else:
    escaped("3000 zombies")
"""), ANY, limits=SEVERAL),
)  # fmt: skip

MEMORY = (
    bomb("memory of one process", python("hold = [bytearray(8 << 20) for _ in range(200)]\nescaped('1.6 GB')"),
         TOO_MUCH, holds=little_memory),
    bomb("memory of one command", command("hold = [bytearray(8 << 20) for _ in range(200)]\nescaped('1.6 GB')"),
         TOO_MUCH, limits=SEVERAL, holds=little_memory),
    bomb("memory of many processes", command("""
import time
for _ in range(6):
    if os.fork() == 0:
        hold = bytearray(b"x") * (150 << 20)
        time.sleep(60)
time.sleep(60)
"""), frozenset({"MEMORY"}), limits=replace(SEVERAL, wall_seconds=8.0)),
    bomb("anonymous mappings", python("""
import mmap
hold = []
for _ in range(100):
    room = mmap.mmap(-1, 16 << 20)
    room.write(b"x" * (16 << 20))
    hold.append(room)
escaped("1.6 GB")
"""), TOO_MUCH, holds=little_memory),
    bomb("anonymous files", python("""
hold = []
for at in range(60):
    try:
        descriptor = os.memfd_create(f"m{at}")
        while True:
            os.write(descriptor, bytes(1 << 20))
            hold.append(1)
            if len(hold) > 400: escaped("400 MB in anonymous files"); break
    except OSError:
        continue
"""), ANY | {"OK"}),
    bomb("files in shared memory", python("""
total = 0
for at in range(60):
    try:
        with open(f"/dev/shm/@mark@{at}", "wb") as file:
            total += file.write(bytes(4 << 20))
    except OSError:
        continue
if total: escaped(f"{total} bytes in /dev/shm")
"""), ANY),
    bomb("System V shared memory", python("""
for _ in range(64):
    attempt("shmget", lambda: checked(libc.shmget(0, 64 << 20, 0o1666)))
"""), ANY),
    bomb("full pipes and sockets", python("""
import socket
total = 0
for _ in range(200):
    try:
        pair = os.pipe()
        os.set_blocking(pair[1], False)
        try:
            import fcntl
            fcntl.fcntl(pair[1], 1031, 1 << 20)
        except OSError:
            pass
        while True: total += os.write(pair[1], bytes(1 << 16))
    except OSError:
        continue
if total > (192 << 20): escaped(f"{total} bytes in pipes")
"""), ANY),
    bomb("locked memory", python("attempt('mlockall', lambda: checked(libc.mlockall(3)))"), ANY),
    bomb("a huge integer", python("x = 9 ** 9 ** 9"), LATE | TOO_MUCH),
    bomb("a huge text", python("x = 'x' * 10 ** 12"), TOO_MUCH),
    bomb("a range made a list", python("x = list(range(10 ** 10))"), TOO_MUCH, holds=little_memory),
)  # fmt: skip

OUTPUT = (
    bomb("output without end", python("while True: print('x' * 1000)"), FLOOD, holds=little_output),
    bomb("errors without end", python("while True: sys.stderr.write('x' * 1000)"), FLOOD, holds=little_output),
    bomb("yes", shell("yes"), FLOOD, limits=SEVERAL, holds=little_output),
    bomb("one line of a gigabyte", python("for _ in range(1000): os.write(1, b'x' * 10 ** 6)"), FLOOD,
         holds=little_output),
    bomb("output from many processes", shell("for i in 1 2 3 4 5 6; do yes & done; wait"), FLOOD, limits=SEVERAL,
         holds=little_output),
    bomb("output that nobody closes", python("""
os.close(1), os.close(2)
import time
time.sleep(600)
"""), WALL, limits=SLEEPING),
    bomb("input that nobody reads", Program("python", "print('TRIED')", stdin=b"x" * 4 * MEBIBYTE),
         frozenset({"OK"}), holds=printed(b"TRIED")),
    bomb("input closed at once", Program("python", "import os\nos.close(0)\nprint('TRIED')", stdin=b"x" * MEBIBYTE),
         frozenset({"OK"}), holds=printed(b"TRIED")),
)  # fmt: skip

DISK = (
    bomb("one big file", python("with open('big', 'wb') as f:\n    while True: f.write(bytes(1 << 20))",
                                collect=("big",)), FULL, holds=little_files),
    bomb("many big files", python("""
for at in range(1000):
    with open(f"big{at}", "wb") as file: file.write(bytes(4 << 20))
escaped("4 GB on disk")
""", collect=("big0", "big1", "big2", "big3")), FULL, holds=little_files),
    bomb("many files that are deleted but open", python("""
hold = []
for at in range(50):
    file = open(f"big{at}", "wb")
    file.write(bytes(4 << 20)), file.flush()
    os.unlink(f"big{at}")
    hold.append(file)
escaped("200 MB of deleted files")
"""), FULL | {"MEMORY"}),
    bomb("files on the way from socket to socket", python("""
import socket
left, right = socket.socketpair()
total = 0
for at in range(50):
    with open(f"big{at}", "wb") as file:
        file.write(bytes(4 << 20)), file.flush()
        os.unlink(f"big{at}")
        try: socket.send_fds(left, [b"x"], [file.fileno()])
        except OSError: continue
        total += 4 << 20
if total > (32 << 20): escaped(f"{total} bytes in files on the way")
"""), ANY | {"DISK"}),
    bomb("files that are deleted but mapped", python("""
import mmap
hold = []
for at in range(100):
    with open(f"big{at}", "w+b") as file:
        file.write(bytes(4 << 20)), file.flush()
        os.unlink(f"big{at}")
        hold.append(mmap.mmap(file.fileno(), 4 << 20))
escaped("400 MB of deleted files")
"""), ANY | {"DISK", "MEMORY"}),
    bomb("files without end", python("at = 0\nwhile True:\n    open(f'f{at}', 'wb').close()\n    at += 1"), FULL),
    bomb("folders without end", python("at = 0\nwhile True:\n    os.mkdir(f'd{at}')\n    at += 1"), FULL),
    bomb("a folder in a folder, ten thousand deep", python("""
for _ in range(10_000):
    os.mkdir("d"), os.chdir("d")
print("TRIED")
"""), ANY),
    bomb("folders that cannot be entered", python("""
os.makedirs("a/b/c"), open("a/b/c/f", "w").close()
os.chmod("a/b/c", 0), os.chmod("a/b", 0), os.chmod("a", 0), os.chmod(".", 0)
"""), ANY),
    bomb("names that are no text", python("""
for name in (b"\\xff\\xfe", b"a\\nb", b"-rf", b" ", b"\\x7f" * 255, "\\u202e".encode()):
    open(name, "w").close()
""", collect=("-rf",)), ANY),
    bomb("a sparse file of a terabyte", python("""
with open("sparse", "wb") as file:
    os.ftruncate(file.fileno(), 1 << 40)
""", collect=("sparse",)), ANY, holds=little_files),
    bomb("room set aside", python("""
with open("room", "wb") as file:
    attempt("fallocate", lambda: os.posix_fallocate(file.fileno(), 0, 1 << 34) is None)
""", collect=("room",)), ANY | {"DISK"}, holds=little_files),
    bomb("descriptors without end", python("""
hold = []
try:
    while True: hold.append(os.open("/dev/null", 0))
except OSError:
    pass
if len(hold) > 64: escaped(f"{len(hold)} descriptors")
"""), ANY),
    bomb("a core dump", python("import ctypes\nctypes.string_at(0)", collect=("core",)), CRASH,
         holds=lambda outcome: not outcome.files),
)  # fmt: skip

TIME = (
    endless("a loop", python("while True: pass"), limits=BRIEF),
    endless("a loop in C", python("sum(range(10 ** 13))"), limits=BRIEF),
    endless("a regular expression that backtracks", python("import re; re.match(r'(a+)+$', 'a' * 40 + '!')"), limits=BRIEF),
    endless("digits of a huge number", python("sys.set_int_max_str_digits(0); len(str(7 ** 4_000_000))"), limits=BRIEF),
    endless("sleep", python("import time; time.sleep(600)"), WALL, limits=SLEEPING),
    endless("a lock that nobody opens", python("import threading; l = threading.Lock(); l.acquire(); l.acquire()"),
            WALL, limits=SLEEPING),
    endless("waiting for input of its own", python("r, w = os.pipe(); os.read(r, 1)"), WALL, limits=SLEEPING),
    endless("signals ignored", python("""
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
"""), limits=BRIEF),
    endless("signals blocked in a loop", python("""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True: pass
"""), limits=BRIEF),
    endless("it stops itself", python("import signal; os.kill(os.getpid(), signal.SIGSTOP); print('TRIED')"),
            WALL | {"OK", "RUNTIME_ERROR"}, limits=SLEEPING),
    endless("an exception that never ends", python("""
class Never(BaseException):
    def __str__(self):
        while True: pass
raise Never
"""), limits=BRIEF),
    endless("an exit handler that never ends", python("""
import atexit
@atexit.register
def never():
    while True: pass
"""), CPU | {"OK"}, limits=BRIEF),
    endless("a finalizer that never ends", python("""
class Never:
    def __del__(self):
        while True: pass
never = Never()
"""), CPU | {"OK"}, limits=BRIEF),
    endless("a thread that never ends", python("""
import threading
def never():
    while True: pass
threading.Thread(target=never).start()
"""), CPU, limits=BRIEF),
    endless("time of many processes", command("""
for _ in range(3): os.fork()
while True: pass
"""), CPU, limits=SEVERAL),
    endless("time of children that come and go", command("""
while True:
    child = os.fork()
    if child == 0:
        sum(range(10 ** 6)); os._exit(0)
    os.waitpid(child, 0)
"""), LATE, limits=SEVERAL),
    bomb("recursion", python("sys.setrecursionlimit(10 ** 9)\ndef f(): return f() + 1\nf()"), CRASH),
    bomb("recursion in C", python("x = []\nfor _ in range(10 ** 6): x = [x]\nrepr(x)"), CRASH),
    bomb("brackets without end", Program("python", "(" * 10**6), CRASH | {"COMPILE_ERROR"}),
    bomb("a constant that is folded", Program("python", "x = " + "(1,) * 10 ** 9 ** 1 and " * 3 + "1"),
         CRASH | {"OK"}),
    bomb("an expression of a million terms", Program("python", "x = " + "-" * 10**6 + "1"),
         CRASH | {"COMPILE_ERROR"}),
    bomb("source that is no text", Program("python", "x = '\0'\nprint(x)"), CRASH | {"COMPILE_ERROR", "OK"}),
)  # fmt: skip

DAEMON = """
import time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        libc.prctl(15, b"@mark@", 0, 0, 0)
        time.sleep(600)
    os._exit(0)
os.wait()
"""

OUTLIVING = (
    Attack("a daemon that holds the output", "resources", command(DAEMON), limits=SEVERAL, ends=TRIED),
    Attack("a daemon without output", "resources", command(
        DAEMON.replace("time.sleep(600)", "os.close(0); os.close(1); os.close(2); time.sleep(600)")
    ), limits=SEVERAL, ends=TRIED),
    Attack("a daemon that ignores every signal", "resources", command(DAEMON.replace(
        "time.sleep(600)", "import signal\n        signal.pthread_sigmask(0, range(1, 65))\n        time.sleep(600)"
    )), limits=SEVERAL, ends=TRIED),
    Attack("setsid in a shell", "resources", shell("setsid sleep 600 &"), limits=SEVERAL, ends=TRIED),
    Attack("nohup in a shell", "resources", shell("nohup sh -c 'sleep 600' >/dev/null 2>&1 &"), limits=SEVERAL,
           ends=TRIED),
    Attack("a thread that goes on after the end", "resources", python("""
import threading, time
threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10 ** 6)], daemon=True).start()
"""), ends=TRIED),
    bomb("a stopped daemon", command(DAEMON.replace("time.sleep(600)", "os.kill(os.getpid(), 19)")), TRIED,
         limits=SEVERAL),
)  # fmt: skip

CPP = Limits(cpu_seconds=2.0, wall_seconds=8.0, memory_bytes=512 * MEBIBYTE, output_bytes=65536,
             disk_bytes=32 * MEBIBYTE, num_processes=16, num_files=256)  # fmt: skip
COMPILED = frozenset[Status]({
    "COMPILE_ERROR", "CPU_TIMEOUT", "WALL_TIMEOUT", "MEMORY", "RUNTIME_ERROR", "DISK", "SECURITY"
})  # fmt: skip


def compiled(name: str, source: str) -> Attack:
    """Return an attack on the compiler."""
    return Attack(name, "resources", Program("c++", source), limits=CPP, ends=COMPILED, finishes=False,
                  seconds=120.0, slow=True)  # fmt: skip


COMPILERS = (
    compiled("a template without end", """
template <int N> struct T { static const int v = T<N + 1>::v + T<N + 2>::v; };
int main() { return T<0>::v; }
"""),
    compiled("a constant without end", """
constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }
constexpr long v = f(1L << 60);
int main() { return v; }
"""),
    compiled("a file that never ends is included", '#include "/dev/zero"\nint main() {}'),
    compiled("a terminal is included", '#include "/dev/tty"\nint main() {}'),
    compiled("macros that explode", "\n".join(
        ["#define A0 x x x x x x x x x x"]
        + [f"#define A{i} " + " ".join([f"A{i - 1}"] * 10) for i in range(1, 9)] + ["A8"]
    )),
    compiled("a program of two gigabytes", "char a[2000000000] = {1};\nint main() { return a[5]; }"),
    compiled("brackets without end in C++", "int main() { return " + "(" * 200_000 + "1;"),
)  # fmt: skip

LATER = (
    Attack("cases that each take all their time", "resources", Program(
        "python", "def f(x):\n    while True: pass\n"
    ), cases=tuple(Case(at, "f", (at,)) for at in range(3)), limits=replace(QUICK, cpu_seconds=0.3), finishes=False),
    Attack("an answer without end", "resources", Program("python", "def f():\n    return 'x' * (64 << 20)\n"),
           cases=(Case("x", "f"),), finishes=False),
    Attack("an answer that contains itself", "resources", Program(
        "python", "def f():\n    a = []\n    a.append(a)\n    return a\n"
    ), cases=(Case([], "f"), Case([[]], "f")), finishes=False),
    Attack("an answer nested a million deep", "resources", Program(
        "python", "def f():\n    a = []\n    for _ in range(10 ** 6): a = [a]\n    return a\n"
    ), cases=(Case([], "f"),), finishes=False),
    Attack("an answer of ten million numbers", "resources", Program(
        "python", "def f():\n    return [0] * 10 ** 7\n"
    ), cases=(Case([0], "f"),), finishes=False),
    Attack("a number of ten million digits", "resources", Program(
        "python", "def f():\n    return 1 << 33_000_000\n"
    ), cases=(Case(1, "f"),), finishes=False),
)  # fmt: skip

ATTACKS = (*PROCESSES, *MEMORY, *OUTPUT, *DISK, *TIME, *OUTLIVING, *COMPILERS, *LATER)
