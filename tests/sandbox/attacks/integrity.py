"""Attacks that change what is not theirs: files outside, collected outputs, tools, the interpreter of later runs."""
# ruff: noqa: E501 (programs)

from __future__ import annotations

from dataclasses import replace

from posttrain.protocols import Case, Program

from .attack import SEVERAL, Attack, Outcome, probe, python, shell

KIND = "integrity"

WRITES = (
    *probe("write to a file outside", KIND, """
# ruff: noqa: E501 (programs)
attempt("write", lambda: writes("@secret@"))
attempt("append", lambda: open("@secret@", "ab").write(b"x"))
attempt("update", lambda: open("@secret@", "r+b").write(b"x"))
attempt("through a link", lambda: (os.symlink("@secret@", "soft"), writes("soft"))[1])
attempt("through /proc", lambda: writes("/proc/self/root@secret@"))
attempt("by its folder", lambda: os.open("secret.txt", os.O_WRONLY, dir_fd=os.open("@folder@", os.O_PATH)) >= 0)
""", bare=True),
    *probe("make files outside", KIND, """
for place in ("/", "/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr/lib", "@folder@", "@home@", "@here@", "..",
              "/proc/self/cwd/..", os.path.dirname(sys.executable), sys.prefix):
    path = place + "/@mark@"
    attempt(f"file in {place}", lambda: os.open(path, os.O_CREAT | os.O_WRONLY) >= 0)
    attempt(f"folder in {place}", lambda: os.mkdir(path) is None)
    attempt(f"link in {place}", lambda: os.symlink("x", path) is None)
    attempt(f"fifo in {place}", lambda: os.mkfifo(path) is None)
    attempt(f"unnamed file in {place}", lambda: os.open(place, os.O_TMPFILE | os.O_WRONLY) >= 0)
"""),
    *probe("cut a file outside short", KIND, """
attempt("truncate", lambda: os.truncate("@secret@", 0) is None)
attempt("truncate through a link", lambda: (os.symlink("@secret@", "soft"), os.truncate("soft", 0))[1] is None)
attempt("open", lambda: os.open("@secret@", os.O_TRUNC) >= 0)
attempt("open to write", lambda: os.open("@secret@", os.O_WRONLY | os.O_TRUNC) >= 0)
attempt("creat", lambda: syscall(85, b"@secret@", 0o666))
""", bare=False),
    *probe("remove a file outside", KIND, """
attempt("unlink", lambda: os.unlink("@secret@") is None)
attempt("rename", lambda: os.rename("@secret@", "@folder@/@mark@") is None)
attempt("replace", lambda: (open("mine", "w").close(), os.replace("mine", "@secret@"))[1] is None)
attempt("link", lambda: os.link("@secret@", "@folder@/@mark@") is None)
attempt("rmdir", lambda: os.rmdir("@folder@") is None)
"""),
    *probe("change a file's attributes outside", KIND, """
attempt("chmod", lambda: os.chmod("@secret@", 0o600) is None)
attempt("chmod of the folder", lambda: os.chmod("@folder@", 0o755) is None)
attempt("chown", lambda: os.chown("@secret@", os.getuid(), os.getgid()) is None)
attempt("lchown", lambda: os.lchown("@secret@", os.getuid(), os.getgid()) is None)
attempt("setxattr", lambda: os.setxattr("@secret@", "user.x", b"x") is None)
def by_path_handle(change): return change(os.open("@secret@", os.O_PATH))
attempt("fchmod", lambda: by_path_handle(lambda fd: os.chmod(f"/proc/self/fd/{fd}", 0o600)) is None)
attempt("fchmodat2", lambda: syscall(452, -100, b"@secret@", 0o600, 0))
attempt("fchownat", lambda: syscall(260, -100, b"@secret@", os.getuid(), os.getgid(), 0))
os.symlink("@secret@", "soft")
attempt("chmod by a link", lambda: os.chmod("soft", 0o600) is None)
attempt("setxattr by a link", lambda: os.setxattr("soft", "user.x", b"x") is None)
attempt("setxattrat", lambda: syscall(463, -100, b"@secret@", 0, b"user.x", 0, 0))
attempt("file_setattr", lambda: syscall(469, -100, b"@secret@", bytes(32), 24, 0))
attempt("lock", lambda: __import__("fcntl").flock(os.open("@secret@", os.O_RDONLY), 2) is None)
attempt("lease", lambda: __import__("fcntl").fcntl(os.open("@secret@", os.O_RDONLY), 1024, 0) == 0)
attempt("watch", lambda: checked(libc.inotify_add_watch(libc.inotify_init(), b"@folder@", 0xFFF)) and False)
""", finishes=True),
    *probe("change a file's times outside", KIND, """
# These may be pretended to work: what counts is that the file outside does not change.
def quietly(action):
    try: action()
    except OSError: pass
os.symlink("@secret@", "soft")
for times in (None, (1, 1)):
    for path in ("@secret@", "soft", "@folder@", "@folder@/socket"):
        quietly(lambda: os.utime(path, times))
    quietly(lambda: os.utime("secret.txt", times, dir_fd=os.open("@folder@", os.O_PATH)))
    quietly(lambda: os.utime(f"/proc/self/fd/{os.open('@secret@', os.O_PATH)}", times))
    quietly(lambda: syscall(280, os.open("@secret@", os.O_PATH), b"", 0, 0x1000))
for number in (132, 235):
    quietly(lambda: syscall(number, b"@secret@", 0))
quietly(lambda: syscall(280, -100, b"@secret@", 0, 0))
quietly(lambda: syscall(261, -100, b"@secret@", 0))
"""),
    *probe("write into a waiting pipe outside", KIND, """
attempt("fifo", lambda: os.open("@folder@/fifo", os.O_RDWR | os.O_NONBLOCK) >= 0)
"""),
    Attack("write outside with other programs", KIND, shell("""
echo x > @secret@ && echo ESCAPED echo
cp /dev/null @secret@ && echo ESCAPED cp
rm @secret@ && echo ESCAPED rm
mv @secret@ @folder@/@mark@ && echo ESCAPED mv
touch @secret@
chmod 600 @secret@ && echo ESCAPED chmod
touch /tmp/@mark@ /var/tmp/@mark@ /dev/shm/@mark@
mkdir -p @home@/@mark@ && echo ESCAPED mkdir
true
"""), limits=SEVERAL),
)  # fmt: skip


def nothing_collected(outcome: Outcome) -> bool:
    """Tell whether no file came back."""
    return not outcome.files


ENDED = frozenset({"OK", "RUNTIME_ERROR", "DISK", "SECURITY", "OUTPUT"})

COLLECTED = (
    Attack("collect a pipe", KIND, python("os.mkfifo('out')", collect=("out",)), holds=nothing_collected),
    Attack("collect a device", KIND, python(
        "attempt('mknod', lambda: os.mknod('out', 0o20666, os.makedev(1, 5)) is None)", collect=("out",)
    ), holds=nothing_collected),
    Attack("collect a socket", KIND, python("""
import socket
def bind(): socket.socket(socket.AF_UNIX).bind("out"); return True
attempt("bind", bind)
""", collect=("out",)), holds=nothing_collected),
    Attack("collect a folder", KIND, python("os.mkdir('out'); open('out/f', 'w').write('x')", collect=("out",)),
           holds=nothing_collected),
    Attack("collect a link to a device", KIND, python("os.symlink('/dev/zero', 'out')", collect=("out",)),
           holds=nothing_collected),
    Attack("collect a link in a loop", KIND, python("os.symlink('out', 'out'); os.symlink('.', 'd')",
                                                    collect=("out", "d/d/d/out")), holds=nothing_collected),
    Attack("collect a file that another name links to", KIND, python("""
attempt("link", lambda: os.link("/bin/sh", "out") is None)
attempt("linkat", lambda: os.link("/proc/self/exe", "out", follow_symlinks=True) is None)
""", collect=("out",)), holds=nothing_collected),
    Attack("collect what cannot be opened", KIND, python(
        "open('out', 'w').write('x')\ntry: os.chmod('out', 0)\nexcept OSError: pass", collect=("out",)
    ), ends=ENDED),
    Attack("collect a file that a process goes on writing to", KIND, Program(
        "command", arguments=("/bin/sh", "-c", "(while :; do echo x >> out; done) & sleep 0.1; echo TRIED"),
        collect=("out",),
    ), limits=SEVERAL, ends=ENDED | {"CPU_TIMEOUT"}),
    Attack("collect a very long name", KIND, python("", collect=("x" * 5000, "a/" * 5000 + "b", "", ".", "..", "/", "\0")),
           ends=ENDED, finishes=False, holds=nothing_collected),
)  # fmt: skip

PATHS = tuple(
    Attack(f"an input file named {name!r:.40}", KIND, Program("python", "print('TRIED')", files={name: b"changed"}),
           ends=ENDED, finishes=False)
    for name in ("../@mark@", "/tmp/@mark@", "@secret@", "a/../../@mark@", "", ".", "..", "a\0b", "x" * 300,
                 "/".join(["d"] * 3000), "~/@mark@", "/proc/self/cwd/../@mark@", "./a", "a//b")
)  # fmt: skip

TOOLS_OF_THE_BOX = (
    Attack("tools of the same name in the box", KIND, Program("shell", """
PATH_BEFORE=$PATH
case ":$PATH:" in *:.:*|*::*) echo "ESCAPED the box is on the path";; esac
chmod +x ls
ls / >/dev/null
echo TRIED
""", files={"ls": b"#!/bin/sh\necho ESCAPED ls\n", "python3": b"#!/bin/sh\necho ESCAPED python3\n"}), limits=SEVERAL),
    Attack("a compiler of the same name in the box", KIND, Program(
        "c++", "#include <cstdio>\nint main() { puts(\"TRIED\"); }",
        files={"g++": b"#!/bin/sh\necho ESCAPED\n", "bits/stdc++.h": b"#error ESCAPED\n", "cstdio": b"#error ESCAPED\n",
               "specs": b"*link:\n+ ESCAPED\n", "as": b"#!/bin/sh\necho ESCAPED\n", "ld": b"#!/bin/sh\necho ESCAPED\n"},
    ), limits=replace(SEVERAL, memory_bytes=512 * 2**20, num_processes=16, disk_bytes=32 * 2**20)),
    Attack("modules of the same name in the box", KIND, Program(
        "python", "def f(x):\n    return 0\n",
        files=dict.fromkeys(("json.py", "os.py", "posttrain.py", "posttrain/__init__.py", "posttrain/sandbox/plain.py", "plain.py", "sitecustomize.py", "usercustomize.py", "encodings.py", "codecs.py", "io.py", "site.py", "struct.py", "random.py", "conftest.py"), b"print('ESCAPED', __name__)\nimport os\nos._exit(0)\n"),
    ), cases=(Case(1, "f", (1,)),)),
    Attack("the module cache of a later run", KIND, python("""
import json
attempt("cache", lambda: "ESCAPED" in json.__doc__)
"""), before=(python("""
import json
for folder in (os.path.dirname(json.__file__), os.path.dirname(json.__file__) + "/__pycache__"):
    attempt("cache", lambda: os.open(folder + "/@mark@.pyc", os.O_CREAT | os.O_WRONLY) >= 0)
"""),)),
    Attack("a compiled program that changes itself", KIND, Program("c++", '''
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>
#include <sys/stat.h>
// The second time this runs, it must be the program as compiled, not what the first run left.
static volatile char state[] = "state:clean";
int main() {
    if (state[6] == 'd') { puts("ESCAPED the cache kept a changed program"); return 0; }
    std::string path(4096, 0);
    path.resize(std::max<long>(0, readlink("/proc/self/exe", &path[0], 4095)));
    for (std::string name : {path, std::string("a.out"), std::string("main"), std::string("program")}) {
        if (name.empty()) continue;
        std::ifstream in(name, std::ios::binary);
        std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        auto at = all.find(std::string("state:") + "clean");
        if (at == std::string::npos) continue;
        all.replace(at, 11, "state:dirty");
        chmod(name.c_str(), 0777);
        unlink(name.c_str());
        std::ofstream(name, std::ios::binary) << all;
        chmod(name.c_str(), 0777);
    }
    puts("TRIED");
}
'''), before=(), limits=replace(SEVERAL, memory_bytes=512 * 2**20, num_processes=16, disk_bytes=32 * 2**20)),
    Attack("loader variables", KIND, shell("env | grep -E '^(LD_|PYTHON(PATH|STARTUP|HOME)|BASH_ENV|ENV)=' "
                                           "&& echo ESCAPED; true"), limits=SEVERAL),
    Attack("a program that is an option", KIND, Program("command", arguments=("--version",)), limits=SEVERAL,
           ends=frozenset({"RUNTIME_ERROR"}), finishes=False),
)  # fmt: skip

CHANGING = next(
    attack for attack in TOOLS_OF_THE_BOX if attack.name == "a compiled program that changes itself"
)
TWICE = replace(
    CHANGING, name="a compiled program that changed itself before", before=(CHANGING.program,) * 2
)

POISON = """
import builtins, json, os, sys
def lie(*arguments, **keywords): return True
for name in ("isinstance", "len", "repr", "type", "id", "hash", "sorted", "all", "any", "print"):
    setattr(builtins, name, lie)
json.dumps = json.loads = lambda *a, **k: "[1]"
os._exit = os.write = os.read = os.fork = os.waitpid = lie
sys.exit = lie
for module in list(sys.modules):
    if module not in ("sys", "builtins"): sys.modules[module] = None
sys.modules.clear()
"""

POISONED = (
    Attack("every builtin replaced", KIND, Program("python", POISON + "\ndef f(x):\n    return 0\n"),
           cases=(Case(1, "f", (1,)), Case(True, "f", (2,)))),
    Attack("every builtin replaced, in a call", KIND, Program(
        "python", "def f(x):\n" + "".join(f"    {line}\n" for line in POISON.strip().splitlines()) + "    return 0\n"
    ), cases=(Case(1, "f", (1,)), Case(True, "f", (2,)))),
    Attack("the interpreter's internals overwritten", KIND, Program("python", '''
import ctypes
def f(x):
    # The cached small integers 1 and 0 change places.
    for at in (24,):
        one, none = ctypes.c_long.from_address(id(1) + at), ctypes.c_long.from_address(id(0) + at)
        one.value, none.value = none.value, one.value
    return 0
'''), cases=(Case(2, "f", (1,)), Case(3, "f", (2,)))),
    Attack("streams replaced", KIND, Program("python", '''
import io, sys
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = io.StringIO()
sys.stdin = None
def f(x):
    return 0
'''), cases=(Case(1, "f", (1,)),)),
)  # fmt: skip

ATTACKS = (*WRITES, *COLLECTED, *PATHS, *TOOLS_OF_THE_BOX, TWICE, *POISONED)
