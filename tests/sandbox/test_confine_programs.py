"""What honest programs do works: the standard library in a function, shells and compilers in a command."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import Outcome, Setting, outcomes, trial, tried
from settings import CHECKED, HARDEST

from posttrain.protocols import Limits
from posttrain.sandbox.interpreter import base_python

MIB = 2**20
LIBRARY = """
import asyncio, collections, concurrent.futures, ctypes, datetime, decimal, fractions, functools, hashlib
import heapq, io, itertools, json, logging, math, os, pathlib, pickle, queue, random, re, resource, secrets
import select, shutil, sqlite3, statistics, string, struct, tempfile, threading, time, typing, unittest, uuid
import zlib, zoneinfo

async def both():
    return await asyncio.gather(asyncio.sleep(0, 1), asyncio.to_thread(lambda: 2))

assert asyncio.run(both()) == [1, 2]
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
database = sqlite3.connect("data.db")
database.execute("create table t (x)")
database.execute("insert into t values (?)", (3,))
database.commit()
assert database.execute("select x from t").fetchall() == [(3,)]
assert os.cpu_count() >= 1
assert pathlib.Path("x").write_text("a") == 1 and shutil.copyfile("x", "y")
assert ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 5)() == 5
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
assert len(os.sched_getaffinity(0)) >= 1 and time.perf_counter() > 0 and secrets.token_bytes(4)
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
class T(unittest.TestCase):
    def test(self): self.assertEqual(1, 1)
suite = unittest.defaultTestLoader.loadTestsFromTestCase(T)
assert unittest.TextTestRunner(stream=io.StringIO()).run(suite).wasSuccessful()
print("fine")
"""
SHELL = r"""
set -e
printf 'b\na\n' > lines
sort lines | head -1 | tr a-z A-Z
for word in one two; do echo $word; done > words
wc -l < words
x=$(cat words | grep -c o); echo $x
mkdir -p d/e && cp lines d/e/ && cp d/e/lines d/copied && ls d && rm -r d
find . -name words
sed s/one/1/ words > other && mv other words && awk '{print $1 * 2}' words
touch words
(exit 3) || echo code $?
sleep 0 & wait
test -w . && echo writable
tar cf all.tar words lines && rm words && tar xf all.tar && cat words
"""
CPP = """
#include <cassert>
#include <iostream>
#include <thread>
#include <vector>
int main() {
    std::vector<int> v(10, 1); int sum = 0;
    std::thread t([&] { for (int x : v) sum += x; });
    t.join();
    std::cout << sum << std::endl;
}
"""


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_python_and_its_library_work_in_a_function(setting: Setting) -> None:
    assert tried(setting, [LIBRARY]) == [Outcome("0", "fine")]


def command(words: list[str]) -> str:
    return f"import os; os.execv({words[0]!r}, {words!r})"


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_a_shell_and_its_tools_work_in_a_command(setting: Setting) -> None:
    limits = Limits(num_processes=32, memory_bytes=256 * MIB)
    with trial(setting) as place:
        (outcome,) = outcomes(setting, place, [command(["/bin/sh", "-c", SHELL])], "command", limits)
    expected = ["A", "2", "2", "copied", "e", "./words", "2", "0", "code 3", "writable", "1", "two"]
    assert outcome == Outcome("0", "\n".join(expected))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("setting", [Setting(), HARDEST], ids=str)
def test_a_compiler_and_what_it_makes_work_in_a_command(setting: Setting) -> None:
    limits = Limits(num_processes=32, memory_bytes=1024 * MIB, cpu_seconds=30, disk_bytes=64 * MIB)
    with trial(setting) as place:
        (place.box / "main.cpp").write_text(CPP)
        compile_it = command(["/usr/bin/g++", "-O1", "main.cpp", "-o", "main"])
        compiled = outcomes(setting, place, [compile_it], "command", limits)
        assert compiled == [Outcome("0", "")]
        # Where the user is shared, modes are set from outside.
        (place.box / "main").chmod(0o755)
        run = outcomes(setting, place, [command(["./main"])], "command", limits)
    assert run == [Outcome("0", "10")]


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_python_starts_programs_in_a_command(setting: Setting) -> None:
    code = f"""
import subprocess, sys, os
done = subprocess.run(["/bin/sh", "-c", "cat; exit 4"], input="text", capture_output=True, text=True)
print(done.stdout, done.returncode)
inner = "import json, threading; print(json.dumps([1]))"
python = {base_python()!r}
print(subprocess.check_output([python, "-S", "-c", inner], text=True).strip())
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"child"); os._exit(0)
print(os.read(reading, 5).decode(), os.wait()[1])
"""
    limits = Limits(num_processes=16, memory_bytes=256 * MIB)
    with trial(setting) as place:
        found = outcomes(setting, place, [code], "command", limits)
    assert found == [Outcome("0", "text 4\n[1]\nchild 0")]


def test_processes_of_a_command_signal_each_other_where_signals_stay_inside() -> None:
    code = """
import os, signal, time
child = os.fork()
if child == 0:
    time.sleep(60)
os.kill(child, signal.SIGTERM)
print(os.waitpid(child, 0)[1])
"""
    limits = Limits(num_processes=4)
    for setting in (Setting(), Setting(container=True), Setting(abi=1)):
        with trial(setting) as place:
            assert outcomes(setting, place, [code], "command", limits) == [Outcome("0", "15")]
