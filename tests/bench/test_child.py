import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from posttrain.bench import child as module
from posttrain.bench.child import Child, Program
from posttrain.errors import RunFailed

COUNTER = """
import os, sys, time

def main(lines, settings):
    print("noise on standard output")
    sys.stdout.flush()
    os.system("echo noise of a grandchild")
    lines.answer({"start": settings["start"], "threads": os.environ["OMP_NUM_THREADS"], "path": sys.path})
    count, slept = settings["start"], 0.0
    while True:
        before = time.process_time()
        if not lines.wait():
            break
        slept += time.process_time() - before
        count += 1
        lines.answer({"count": count, "cpu_seconds_waiting": slept})
"""


@dataclass(frozen=True, slots=True)
class Start:
    start: int
    threads: str
    path: list[str]
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Count:
    count: int
    cpu_seconds_waiting: float
    peak_bytes: int


def counter(script, **settings):
    return Program("counter", script(COUNTER), {"start": 5, **settings}, threads=3)


def test_a_child_answers_step_by_step_whatever_else_it_prints(script):
    with Child(counter(script), Start, Count) as child:
        assert (child.facts.start, child.facts.threads) == (5, "3")
        assert [child.step().count for _ in range(3)] == [6, 7, 8]


def test_children_take_turns_and_use_no_cpu_time_while_they_wait(script):
    with Child(counter(script), Start, Count) as one, Child(counter(script), Start, Count) as other:
        turns = [(one.step(), other.step()) for _ in range(3)]
    assert [(a.count, b.count) for a, b in turns] == [(6, 6), (7, 7), (8, 8)]
    assert turns[-1][0].cpu_seconds_waiting < 0.1


def test_the_folders_of_a_program_come_before_installed_packages_and_its_own_script_is_not_among_them(
    script, tmp_path
):
    folder = tmp_path / "overlay"
    program = Program("counter", script(COUNTER), {"start": 0}, threads=1, folders=(folder,))
    with Child(program, Start, Count) as child:
        path = child.facts.path
    assert path[0] == str(folder)
    assert str(module.PACKAGES) in path
    assert os.path.dirname(module.__file__) not in path


def test_peak_memory_is_the_child_s_own_and_counts_what_it_freed(script):
    hog = script(
        """
def main(lines, settings):
    lines.answer({})
    lines.wait()
    b"x" * (300 * 2**20)
    lines.answer({})
"""
    )

    @dataclass(frozen=True, slots=True)
    class Peak:
        peak_bytes: int

    ballast = bytearray(os.urandom(2**20)) * 400  # the parent's own memory must not count
    with Child(Program("hog", hog, {}, threads=1), Peak, Peak) as child:
        before, after = child.facts.peak_bytes, child.step().peak_bytes
    assert before < 100 * 2**20 < len(ballast)
    assert 300 * 2**20 < after < 450 * 2**20


def test_a_child_that_dies_is_reported_with_what_it_printed(script):
    dies = script("def main(lines, settings):\n    raise SystemExit('no module named trl')\n")
    with pytest.raises(RunFailed, match=r"TRL ended \(exit code 1\)[^$]*no module named trl"):
        Child(Program("TRL", dies, {}, threads=1), Start, Count)


def test_a_child_that_dies_in_a_step_is_reported_too(script):
    dies = script(
        COUNTER.replace("count += 1", "print('out of', 'luck', file=sys.stderr); os._exit(7)"), "later.py"
    )
    with (
        Child(Program("later", dies, {"start": 0}, threads=1), Start, Count) as child,
        pytest.raises(RunFailed, match=r"later ended \(exit code 7\)[^$]*out of luck"),
    ):
        child.step()


def test_an_answer_of_another_kind_is_reported_as_it_is(script):
    odd = script(COUNTER.replace('"count": count', '"count": "many"'))
    with (
        Child(Program("odd", odd, {"start": 0}, threads=1), Start, Count) as child,
        pytest.raises(RunFailed, match=r'odd answered.*"count": "many"'),
    ):
        child.step()


def test_a_child_that_does_not_leave_is_killed(script, monkeypatch):
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    stays = script(
        """
import os, time

def main(lines, settings):
    lines.answer({"start": os.getpid(), "threads": "", "path": []})
    time.sleep(600)
"""
    )
    child = Child(Program("stays", stays, {}, threads=1), Start, Count)
    pid = child.facts.start
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_child_s_side_needs_the_standard_library_alone():
    source = Path(module.lines.__file__).read_text()
    imported = {
        line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import", "from"))
    }
    assert imported <= set(sys.stdlib_module_names)
