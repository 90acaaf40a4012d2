"""Programs in the local sandbox: what they get, what they may use, and how their ends are told."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.errors import ConfigError, InputError
from posttrain.sandbox import Blocking, Call, Case, Limits, Local, LocalSandbox, Program

sys.path.insert(0, str(Path(__file__).parent))
from opened import LEVELS, opened

QUICK = Limits(cpu_seconds=5.0, wall_seconds=20.0)


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    with opened(Local(workers=2, min_level=request.param)) as sandbox:
        yield sandbox


async def test_a_script_gets_input_arguments_and_files_and_gives_output_and_files(
    sandbox: LocalSandbox,
) -> None:
    source = """
import sys
open("out/result.bin", "wb").write(bytes(range(256)))
print(sys.argv[1:], sys.stdin.read(), open("data/in.txt").read())
print("to stderr", file=sys.stderr)
"""
    program = Program(
        "python", source, ("a", "b c"), {"data/in.txt": b"file", "out/x": b""}, b"input", ("out/result.bin",)
    )
    result = await sandbox.run(program, QUICK)
    assert (result.status, result.exit_code) == ("OK", 0), result
    assert result.stdout == b"['a', 'b c'] input file\n"
    assert result.stderr == b"to stderr\n"
    assert result.files == {"out/result.bin": bytes(range(256))}
    assert 0 < result.cpu_seconds < 5
    assert result.peak_memory_bytes > 2**20


async def test_input_longer_than_a_pipe_is_read_whole(sandbox: LocalSandbox) -> None:
    count = Program("python", "import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * 300_000)
    assert (await sandbox.run(count, QUICK)).stdout == b"300000\n"
    unread = Program("python", "print('done')", stdin=b"x" * 300_000)
    assert (await sandbox.run(unread, QUICK)).stdout == b"done\n"


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ("print(1)", "OK", 0),
        ("raise SystemExit", "OK", 0),
        ("raise SystemExit(3)", "RUNTIME_ERROR", 3),
        ("raise SystemExit('text')", "RUNTIME_ERROR", 1),
        ("import os; os._exit(7)", "RUNTIME_ERROR", 7),
        ("1 / 0", "RUNTIME_ERROR", 1),
        ("def f(:", "COMPILE_ERROR", 1),
        ("\0", "COMPILE_ERROR", 1),
        ("x = '\ud800'", "COMPILE_ERROR", 1),
        ("import ctypes; ctypes.string_at(0)", "RUNTIME_ERROR", None),
        ("x = [0] * 10**9", "MEMORY", 1),
        ("b'x' * 2**40", "MEMORY", 1),
        ("def f(): f()\nf()", "RUNTIME_ERROR", 1),
        ("import sys; sys.stdout.close()", "OK", 0),
        ("exit(4)", "RUNTIME_ERROR", 4),
    ],
)
async def test_the_end_of_a_script_is_told(
    sandbox: LocalSandbox, source: str, status: str, code: int | None
) -> None:
    result = await sandbox.run(Program("python", source), QUICK)
    assert (result.status, result.exit_code) == (status, code), result


async def test_a_traceback_shows_the_program_and_nothing_of_the_harness(sandbox: LocalSandbox) -> None:
    source = "def f():\n    return 1 / 0\n\nf()\n"
    stderr = (await sandbox.run(Program("python", source), QUICK)).stderr.decode()
    assert stderr.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "main.py", line 4, in <module>',
        "    f()",
    ]
    assert "posttrain" not in stderr


async def test_endless_work_ends_by_cpu_time_and_endless_sleep_by_wall_time(sandbox: LocalSandbox) -> None:
    busy = await sandbox.run(Program("python", "while True: pass"), Limits(cpu_seconds=0.3, wall_seconds=30))
    assert busy.status == "CPU_TIMEOUT"
    assert 0.3 <= busy.cpu_seconds < 1.0
    sleeping = Program("python", "import time; time.sleep(60)")
    idle = await sandbox.run(sleeping, Limits(cpu_seconds=5, wall_seconds=0.5))
    assert idle.status == "WALL_TIMEOUT"
    assert idle.cpu_seconds < 0.3


async def test_output_is_capped_and_marked_and_much_of_it_ends_the_run(sandbox: LocalSandbox) -> None:
    small = Limits(cpu_seconds=5, output_bytes=1000)
    printed = await sandbox.run(Program("python", "print('x' * 5000)"), small)
    assert (printed.status, printed.stdout, printed.truncated) == ("OK", b"x" * 1000, True)
    bomb = await sandbox.run(Program("python", "while True: print('x' * 1000)"), small)
    assert (bomb.status, len(bomb.stdout), bomb.truncated) == ("OUTPUT", 1000, True)
    raw = await sandbox.run(Program("python", "import os; os.write(1, bytes(range(128, 256)))"), QUICK)
    assert (raw.stdout, raw.truncated) == (bytes(range(128, 256)), False)


async def test_each_run_has_a_fresh_box_and_a_fresh_interpreter(sandbox: LocalSandbox) -> None:
    dirty = """
import builtins, json, os, sys
builtins.print = None; json.loads = None; sys.path.append("x"); os.environ["X"] = "1"; os.umask(0)
os.makedirs("a/" * 50); open("a/b", "w").write("left"); os.chmod("a", 0); os.chmod(".", 0)
"""
    look = "import os, json; print(os.listdir('.'), os.environ.get('X'), json.loads('1'), os.umask(0))"
    for _ in range(3):  # more runs than workers
        await sandbox.run(Program("python", dirty), QUICK)
    for _ in range(3):
        assert (await sandbox.run(Program("python", look), QUICK)).stdout == b"[] None 1 18\n"


async def test_hashes_random_numbers_locale_and_time_zone_are_the_same_each_time(
    sandbox: LocalSandbox,
) -> None:
    source = """
import locale, random, time
print(hash("text"), random.random(), time.tzname[0], locale.getpreferredencoding())
"""
    seen = {(await sandbox.run(Program("python", source), QUICK)).stdout for _ in range(6)}
    assert len(seen) == 1
    assert b"UTC UTF-8" in seen.pop().replace(b"utf-8", b"UTF-8")


async def test_a_script_has_nothing_but_the_standard_streams_open(sandbox: LocalSandbox) -> None:
    source = """
import os
def is_open(n):
    try: os.fstat(n)
    except OSError: return False
    return True
print([n for n in range(256) if is_open(n)])
"""
    # 3 is the conversation with the dispatcher, over which nothing more is sent.
    assert (await sandbox.run(Program("python", source), QUICK)).stdout == b"[0, 1, 2, 3]\n"


async def test_disk_is_limited_in_size_and_in_number_of_files(sandbox: LocalSandbox) -> None:
    large = """
for i in range(100): open(f"f{i}", "wb").write(b"x" * 10**6)
import time; time.sleep(5)
"""
    limits = Limits(cpu_seconds=5, disk_bytes=10**7)
    assert (await sandbox.run(Program("python", large), limits)).status == "DISK"
    many = "for i in range(10**6): open(f'f{i}', 'w').close()"
    assert (await sandbox.run(Program("python", many), QUICK)).status == "DISK"


async def test_shells_and_commands_run_with_pipes_and_leave_nothing(sandbox: LocalSandbox) -> None:
    piped = await sandbox.run(Program("shell", "echo b a | tr ' ' '\\n' | sort; echo $0 $1", ("arg",)), QUICK)
    assert (piped.status, piped.stdout) == ("OK", b"a\nb\nmain.sh arg\n")
    failed = await sandbox.run(Program("command", "sh -c 'exit 5'"), QUICK)
    assert (failed.status, failed.exit_code) == ("RUNTIME_ERROR", 5)
    missing = await sandbox.run(Program("command", "no-such-program"), QUICK)
    assert (missing.status, missing.exit_code) == ("RUNTIME_ERROR", 127)
    daemons = "sleep 60 & setsid sleep 60 & (setsid nohup sleep 60 >/dev/null 2>&1 &) ; echo started"
    begun = asyncio.get_running_loop().time()
    result = await sandbox.run(Program("shell", daemons), QUICK)
    assert result.stdout == b"started\n"
    assert asyncio.get_running_loop().time() - begun < 15


async def test_processes_of_a_command_are_counted_and_their_time_added_up(sandbox: LocalSandbox) -> None:
    bomb = await sandbox.run(Program("shell", "f() { f | f & }; f; sleep 1"), Limits(2, 10, num_processes=8))
    assert bomb.status in ("RUNTIME_ERROR", "OK", "CPU_TIMEOUT")
    busy = "(while :; do :; done) & (while :; do :; done) & wait"
    shared = await sandbox.run(Program("shell", busy), Limits(cpu_seconds=0.5, wall_seconds=60))
    assert shared.status == "CPU_TIMEOUT"
    assert 0.5 <= shared.cpu_seconds < 2.0


async def test_memory_of_a_command_counts_all_its_processes(sandbox: LocalSandbox) -> None:
    hog = "python3 -c 'import time; x = bytearray(60 * 2**20); time.sleep(3)'"
    limits = Limits(cpu_seconds=10, wall_seconds=40, memory_bytes=150 * 2**20, num_processes=8)
    result = await sandbox.run(Program("shell", f"{hog} & {hog} & {hog} & {hog} & wait; exit 1"), limits)
    if b"not found" in result.stderr:
        pytest.skip("no python3 in the system's folders")
    # Where the kernel kills one of them, the shell goes on and fails.
    assert result.status in ("MEMORY", "RUNTIME_ERROR"), result
    assert result.peak_memory_bytes < 300 * 2**20


@pytest.mark.parametrize(
    ("program", "limits", "status", "text"),
    [
        (Program("cobol"), QUICK, "INFRA", "language 'cobol'"),
        (Program("python"), Limits(cpu_seconds=-1), "INFRA", "limits.cpu_seconds"),
        (Program("python"), Limits(wall_seconds=float("nan")), "INFRA", "limits.wall_seconds"),
        (Program("python"), Limits(memory_bytes=10), "INFRA", "limits.memory_bytes"),
        (Program("python", files={"../x": b""}), QUICK, "SECURITY", "'../x'"),
        (Program("python", files={"/etc/x": b""}), QUICK, "SECURITY", "'/etc/x'"),
        (Program("python", collect=("a/../../x",)), QUICK, "SECURITY", "'a/../../x'"),
        (Program("python", files={"x": b"x" * 1000}), Limits(disk_bytes=100), "DISK", "disk_bytes"),
        (Program("command", ""), QUICK, "RUNTIME_ERROR", "empty command"),
        (Program("command", "echo 'x"), QUICK, "RUNTIME_ERROR", "quotation"),
        (Program("shell", "a\0b"), QUICK, "RUNTIME_ERROR", "NUL"),
    ],
)
async def test_what_cannot_be_run_gets_a_result_that_says_why(
    sandbox: LocalSandbox, program: Program, limits: Limits, status: str, text: str
) -> None:
    result = await sandbox.run(program, limits)
    assert (result.status, result.exit_code) == (status, None)
    assert text in result.stderr.decode()


async def test_collected_files_are_plain_files_of_the_box_within_the_cap(sandbox: LocalSandbox) -> None:
    source = """
import os
open("plain", "w").write("x"); os.symlink("/etc/hostname", "link"); os.mkfifo("pipe"); os.mkdir("folder")
os.symlink("/etc", "outside"); open("folder/inner", "w").write("y"); open("large", "w").write("z" * 2000)
os.chmod("plain", 0)
"""
    names = ("plain", "link", "pipe", "folder", "outside/hostname", "folder/inner", "large", "missing")
    result = await sandbox.run(Program("python", source, collect=names), Limits(disk_bytes=50_000))
    assert set(result.files) >= {"folder/inner", "large"}
    assert set(result.files) <= {"plain", "folder/inner", "large"}


async def test_functions_are_called_and_their_failures_stay_their_own(sandbox: LocalSandbox) -> None:
    source = """
import os, time
def double(x): return 2 * x
def raises(x): raise KeyError("no")
def leaves(x): os._exit(0)
def exits(x): raise SystemExit(0)
def loops(x):
    while True: pass
def sleeps(x): time.sleep(60)
def returns_itself(x):
    x = []; x.append(x); return x
def crashes(x): os.kill(os.getpid(), 11)
def hoards(x): return [0] * 10**9
class Adder:
    def __init__(self): self.by = 5
    def add(self, x): return x + self.by
"""
    names = [
        "double", "raises", "double", "leaves", "exits", "double", "loops", "sleeps", "returns_itself",
        "crashes", "hoards", "no_such", "Adder().add",
    ]  # fmt: skip
    calls = [Call(name, (4,)) for name in names]
    limits = Limits(cpu_seconds=0.5, wall_seconds=2, memory_bytes=256 * 2**20)
    answers = await sandbox.call(Program("python", source), calls, limits)
    assert [answer.status for answer in answers] == [
        "OK", "RUNTIME_ERROR", "OK", "RUNTIME_ERROR", "RUNTIME_ERROR", "OK", "CPU_TIMEOUT", "WALL_TIMEOUT",
        "RUNTIME_ERROR", "RUNTIME_ERROR", "MEMORY", "RUNTIME_ERROR", "OK",
    ]  # fmt: skip
    assert [answer.line for answer in answers if answer.status == "OK"] == [b"8", b"8", b"8", b"9"]
    assert answers[1].raised[:2] == ("KeyError", "LookupError")
    assert all(answer.line is None for answer in answers if answer.status != "OK")


async def test_a_program_that_cannot_be_defined_fails_every_call(sandbox: LocalSandbox) -> None:
    for source, status in (
        ("def f(:", "COMPILE_ERROR"),
        ("1 / 0", "RUNTIME_ERROR"),
        ("import os; os._exit(0)", "RUNTIME_ERROR"),
    ):
        answers = await sandbox.call(Program("python", source), [Call("f"), Call("f")], QUICK)
        assert [answer.status for answer in answers] == [status, status]
    other = await sandbox.call(Program("shell", "echo"), [Call("f")], QUICK)
    assert [answer.status for answer in other] == ["INFRA"]


async def test_answers_written_past_the_harness_are_tampering(sandbox: LocalSandbox) -> None:
    source = """
import os
def frame(index, line): return b"V" + (4 + len(line)).to_bytes(4, "big") + index.to_bytes(4, "big") + line
def early(x): os.write(3, frame(1, b"99")); return 1
def twice(x): os.write(3, frame(0, b"1")); return 1
def honest(x): return x
def floods(x): return "x" * 10**7
"""
    small = Limits(cpu_seconds=5, output_bytes=1000)
    program = Program("python", source)
    early = await sandbox.call(program, [Call("early", (1,)), Call("honest", (2,))], small)
    assert [answer.status for answer in early] == ["TAMPERED", "OK"]
    twice = await sandbox.call(program, [Call("twice", (1,)), Call("honest", (2,))], small)
    assert [(answer.status, answer.line) for answer in twice] == [("OK", b"1"), ("TAMPERED", None)]
    flood = await sandbox.call(program, [Call("floods", (1,)), Call("honest", (2,))], small)
    assert [answer.status for answer in flood] == ["OUTPUT", "OK"]


async def test_cases_are_judged_outside_the_box(sandbox: LocalSandbox) -> None:
    program = Program("python", "def double(x):\n    return 2 * x\n")
    cases = [Case(8, "double", (4,)), Case(9, "double", (4,)), Case(8.0, "double", (4,))]
    result = await sandbox.test(program, cases, QUICK)
    assert [case.status for case in result.cases] == ["OK", "WRONG", "WRONG"]
    with pytest.raises(InputError, match="plain data"):
        await sandbox.test(program, [Case(object(), "double", (4,))], QUICK)


def test_settings_that_make_no_sense_are_refused_with_the_way_out() -> None:
    for settings, words in (
        (Local(min_level="none"), "unsafe = true"),
        (Local(workers=-1), "sandbox.workers"),
        (Local(recycle_after=0), "sandbox.recycle_after"),
        (Local(import_folders=("relative",)), "absolute"),
        (Local(min_level="strong"), "Choose one of"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=words):
            settings.check()


def test_a_level_that_the_machine_lacks_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posttrain.sandbox.bubblewrap._SYSTEM_PATH", "/nonexistent")
    with pytest.raises(ConfigError, match=r"namespaces.*[Ii]nstall"):
        asyncio.run(Local(min_level="namespaces").open())


def test_modules_can_be_imported_from_folders_that_are_named() -> None:
    source = "import some_module; print(some_module.VALUE)"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "some_module.py").write_text("VALUE = 17\n")
        with Blocking(Local(workers=1)) as sandbox:
            assert sandbox.run(Program("python", source), QUICK).status == "RUNTIME_ERROR"
        with Blocking(Local(workers=1, import_folders=(folder,))) as sandbox:
            assert sandbox.run(Program("python", source), QUICK).stdout == b"17\n"


def test_a_blocking_face_runs_tests_and_sessions() -> None:
    with Blocking(Local(workers=1)) as sandbox:
        assert sandbox.run(Program("python", "print(6 * 7)"), QUICK).stdout == b"42\n"
        judged = sandbox.test(Program("python", "def f(): return 1"), [Case(1, "f")], QUICK)
        assert judged.status == "OK"
        session = sandbox.session({"a": b"x"}, QUICK)
        session.run(Program("python", "y = open('a').read()"), QUICK)
        assert session.run(Program("python", "print(y)"), QUICK).stdout == b"x\n"
        session.close()
    sandbox.close()
