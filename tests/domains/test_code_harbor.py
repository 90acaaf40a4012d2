"""Tasks as directories: written and read back, and judged by scripts in the layout's own way."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from coding import ADD, DOUBLE, attempt, opened

from posttrain.config.wording import Place
from posttrain.domains.code_harbor import read_folder, read_problem, write_problem
from posttrain.domains.code_read import problems
from posttrain.domains.code_script import harbor
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, InputError, RowError
from posttrain.protocols import Case
from posttrain.sandbox import LocalSandbox
from posttrain.types import Domain, Reward

AWKWARD = Problem(
    name="folder/with: signs",
    statement="Two lines,\r\nwith ``` fences ``` and ümlauts.\n\n",
    function="Solution().f",
    visible=(),
    hidden=(
        Case((1, {2.5}), "Solution().f", ([b"\xff"],), {"key": frozenset({"x"})}),
        Case(["ValueError"], "Solution().f", (float("inf"),), comparator="raises"),
        Case({"test": "assert f\u2028", "preamble": ""}, "Solution().f", comparator="asserts"),
    ),
    solution="class Solution: pass",
)
TEST = """#!/bin/bash
mkdir -p /logs/verifier
cd /app
if grep -q hello /app/hello.txt && python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""


@pytest.mark.parametrize("problem", [DOUBLE, ADD, AWKWARD, replace(DOUBLE, solution="", preamble="")])
def test_a_problem_survives_its_directory(problem: Problem, tmp_path: Path) -> None:
    write_problem(problem, tmp_path / "task")
    assert read_problem(tmp_path / "task") == problem
    names = {path.name for path in (tmp_path / "task").iterdir()}
    assert names - {"solution"} == {"instruction.md", "task.toml", "environment", "tests", "hidden"}


def test_hidden_cases_stand_in_hidden_alone(tmp_path: Path) -> None:
    problem = replace(DOUBLE, hidden=(Case("s3cret", "double", (1234567,)),))
    write_problem(problem, tmp_path / "task")
    holding = [
        path for path in (tmp_path / "task").rglob("*") if path.is_file() and "1234567" in path.read_text()
    ]
    assert [path.parent.name for path in holding] == ["hidden"]


def test_a_folder_of_tasks_is_data_for_the_code_domain(tmp_path: Path) -> None:
    for problem in (DOUBLE, ADD):
        write_problem(problem, tmp_path / problem.name)
    found = problems(str(tmp_path), "auto", "examples", place=Place("", ""))
    assert found == tuple(read_folder(tmp_path)) == (ADD, DOUBLE)


@pytest.mark.parametrize(("problem", "right"), [(DOUBLE, True), (DOUBLE, False), (ADD, True), (ADD, False)])
def test_what_is_written_runs_as_the_layout_is_run_elsewhere(
    problem: Problem, right: bool, tmp_path: Path
) -> None:
    """Harbor's container, by hand: its three absolute folders are folders of this test."""
    write_problem(problem, tmp_path / "task")
    for name in ("app", "tmp"):
        (tmp_path / name).mkdir()
    shutil.copytree(tmp_path / "task" / "tests", tmp_path / "tests")
    (tmp_path / "app" / "solution.py").write_text(problem.solution if right else "x = 1\n")
    for path in (tmp_path / "tests").iterdir():
        text = path.read_text()
        for name in ("/tests/", "/app/", "/logs/", "/tmp"):
            text = text.replace(name, f"@{name}")
        path.write_text(text.replace("@", str(tmp_path)).replace("python3", sys.executable))
    subprocess.run(
        ["bash", str(tmp_path / "tests" / "test.sh")], capture_output=True, timeout=60, check=False
    )
    assert (tmp_path / "logs" / "verifier" / "reward.txt").read_text().strip() == str(int(right))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    write_problem(DOUBLE, tmp_path / "task")
    with pytest.raises(InputError, match="exists already"):
        write_problem(ADD, tmp_path / "task")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("task.toml", "= 1", r"task.toml is not TOML"),
        ("task.toml", "[metadata]\nposttrain = 1", r"metadata.posttrain is no table"),
        ("instruction.md", None, r"instruction.md: no such file"),
        ("instruction.md", "\udcff", r"instruction.md is no UTF-8"),
        ("hidden/cases.jsonl", None, r"has no hidden/cases.jsonl.*'harbor'"),
        ("hidden/cases.jsonl", "{}\n", r"hidden/cases.jsonl, row 1, field 'function': is missing"),
        ("tests/visible.jsonl", "{\n", r"tests/visible.jsonl, row 1: is no case"),
        ("tests/visible.jsonl", "[]\n", r"tests/visible.jsonl, row 1: is no case"),
    ],
)
def test_a_directory_that_is_wrong_names_the_file(
    file: str, content: str | None, said: str, tmp_path: Path
) -> None:
    write_problem(DOUBLE, tmp_path / "task")
    path = tmp_path / "task" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises((InputError, RowError), match=said):
        read_problem(tmp_path / "task")


# --- tasks with a script ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened() as sandbox:
        yield sandbox


def make(folder: Path, test: str = TEST, count: int = 12) -> None:
    for number in range(count):
        task = folder / f"task-{number}"
        for name in ("tests", "solution", "environment"):
            (task / name).mkdir(parents=True)
        (task / "task.toml").write_text('version = "1.0"\n')
        (task / "instruction.md").write_text(f"Write hello and {number} to /app/hello.txt.\n")
        (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
        (task / "environment" / "given.txt").write_text(str(number))
        (task / "tests" / "test.sh").write_text(test)
        check = f"text = open('/app/hello.txt').read()\nassert '{number}' in text\n"
        (task / "tests" / "check.py").write_text(check)
        (task / "solution" / "solve.sh").write_text("echo hello $(cat given.txt) > hello.txt\n")


async def earned(domain: Domain, answer: str, sandbox: LocalSandbox) -> Reward:
    return await domain.verify(attempt(domain.task("train", 0, 0), answer), sandbox, {})


async def test_a_script_judges_what_an_answer_left(sandbox: LocalSandbox, tmp_path: Path) -> None:
    make(tmp_path)
    domain = harbor(str(tmp_path))
    task = domain.task("train", 0, 0)
    assert "Dockerfile" not in str(task.reference["script"]["start"])
    assert (await earned(domain, str(task.reference["answer"]), sandbox)).value == 1.0
    assert (await earned(domain, "```bash\necho hello > hello.txt\n```", sandbox)).value == 0.0
    assert (await earned(domain, "exit 1", sandbox)).value == 0.0
    assert (await earned(domain, "", sandbox)).value == -1.0


async def test_a_planted_reward_or_test_is_no_reward(sandbox: LocalSandbox, tmp_path: Path) -> None:
    make(tmp_path)
    domain = harbor(str(tmp_path))
    planted = "mkdir -p logs/verifier tests; echo 1 > logs/verifier/reward.txt; echo 'exit 0' > tests/test.sh"
    assert (await earned(domain, planted, sandbox)).value == 0.0


async def test_an_answer_that_hangs_is_a_time_out(sandbox: LocalSandbox, tmp_path: Path) -> None:
    make(tmp_path)
    domain = harbor(str(tmp_path), cpu_seconds=1.0, wall_seconds=2.0)
    assert (await earned(domain, "while true; do :; done", sandbox)).value == -0.5


@pytest.mark.parametrize(
    ("test", "value", "parts"),
    [
        ("exit 0", 1.0, {"tests": 1.0}),
        ("exit 3", 0.0, {"tests": 0.0}),
        ("echo 0.25 > /logs/verifier/reward.txt; exit 1", 0.25, {"tests": 0.25}),
        ("echo 7 > /logs/verifier/reward.txt", 1.0, {"tests": 1.0}),
        ("echo nan > /logs/verifier/reward.txt", 0.0, {"tests": 0.0, "unreadable": 1.0}),
        ("echo '{\"reward\": 0.5, \"a\": 1}' > /logs/verifier/reward.json", 0.5, {"tests": 0.5, "a": 1.0}),
        ("echo '[]' > /logs/verifier/reward.json", 0.0, {"tests": 0.0, "unreadable": 1.0}),
    ],
)  # fmt: skip
async def test_the_reward_is_what_the_script_writes_else_its_exit_code(
    sandbox: LocalSandbox, tmp_path: Path, test: str, value: float, parts: dict[str, float]
) -> None:
    make(tmp_path, test)
    reward = await earned(harbor(str(tmp_path)), "true", sandbox)
    assert (reward.value, reward.parts) == (value, parts)


async def test_an_answer_can_be_one_file(sandbox: LocalSandbox, tmp_path: Path) -> None:
    make(tmp_path, "cd /app && python3 answer.py | grep -q hello")
    domain = harbor(str(tmp_path), file="answer.py")
    assert "answer.py" in domain.task("train", 0, 0).prompt[0].content
    assert (await earned(domain, "print('hello')", sandbox)).value == 1.0
    assert (await earned(domain, "print('bye')", sandbox)).value == 0.0


def test_folders_without_a_script_or_tasks_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no folder with tasks"):
        harbor(str(tmp_path))
    make(tmp_path)
    (tmp_path / "task-3" / "tests" / "test.sh").unlink()
    with pytest.raises(InputError, match=r"task-3 has no tests/test\.sh"):
        harbor(str(tmp_path))
