"""Mining from end to end: what is taken is proven, what is left has a reason, nothing is imported."""

import asyncio
import json
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.domains.mined import mined
from posttrain.domains.mined_rows import Mined, read
from posttrain.mine import program
from posttrain.protocols import Sandbox
from posttrain.sandbox import Local
from posttrain.types import Message, Trajectory, Turn

_SPEC = spec_from_file_location("package_under_test", Path(__file__).with_name("package_under_test.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mine the package once; give the folder that it and the tasks lie in."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "small_pkg").mkdir()
    (folder / "small_pkg" / "__init__.py").write_text(_MODULE.SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        lines: list[str] = []
        program.run("small_pkg", folder / "tasks", program.Limits(), lines.append)
        (folder / "progress").write_text("\n".join(lines))
        yield folder


def by_name(folder: Path) -> dict[str, Mined]:
    return {str(row.problem.function): row for row in read(folder / "tasks")}


def test_what_can_be_judged_is_taken_and_the_rest_has_its_reason(folder: Path) -> None:
    report = json.loads((folder / "tasks" / "report.json").read_text())
    reasons = {entry["function"].rpartition(".")[2]: entry.get("reason", "") for entry in report["functions"]}
    assert reasons == {
        "double": "", "apply_all": "", "joined": "", "divided": "", "shown": "",
        "undocumented": "no doctest",
        "identity": "a program without work passes",
        "drawn": "not deterministic",
        "mistaken": "its example shows something else here",
        "opened": "not plain data",
        "hashed": "not deterministic",
    }  # fmt: skip
    assert report["taken"] == 5 == len(by_name(folder))
    assert report["left"]["not deterministic"] == 2


def test_every_function_shows_its_progress(folder: Path) -> None:
    lines = (folder / "progress").read_text().splitlines()
    assert len(lines) == 10
    assert sum(line.endswith("  taken") for line in lines) == 5


def test_the_package_was_never_imported(folder: Path) -> None:
    assert not (folder / "small_pkg" / "imported").exists()


def test_a_solution_brings_its_helpers_and_never_itself_in_the_preamble(folder: Path) -> None:
    problem = by_name(folder)["double"].problem
    assert problem.preamble.splitlines()[0] == "STEP = 2"
    assert "def _scaled(number, factor=STEP):" in problem.preamble
    assert "double" not in problem.preamble
    assert problem.solution == "def double(number):\n    return _scaled(number)"
    assert problem.statement == "Write the Python function `double(number)`.\n\nReturn twice a number."


def test_plain_calls_stay_calls_and_others_become_expressions(folder: Path) -> None:
    found = by_name(folder)
    (visible,) = found["joined"].problem.visible
    assert (visible.function, visible.arguments, visible.expected) == ("joined", ([1, 2], [3]), [1, 2, 3])
    assert visible.comparator == "list exact"
    (visible,) = found["apply_all"].problem.visible
    assert (visible.function, visible.expected) == ("evaluate", [2, 3, 4])
    assert visible.arguments == ("", "list(apply_all(lambda x: x + 1, [1, 2, 3]))")


def test_hidden_cases_are_new_and_right(folder: Path) -> None:
    problem = by_name(folder)["double"].problem
    asked = [case.arguments for case in (*problem.visible, *problem.hidden)]
    assert len(problem.hidden) >= 4
    assert len(asked) == len(set(map(repr, asked)))
    plain = [case for case in problem.hidden if case.comparator == "exact"]
    assert all(case.expected == 2 * case.arguments[0] for case in plain)
    raising = [case for case in by_name(folder)["divided"].problem.hidden if case.comparator == "raises"]
    assert [case.expected for case in raising] == [["ZeroDivisionError"]] * len(raising) != []


def judged(folder: Path, answers: dict[str, str]) -> dict[str, float]:
    """Return the reward of an answer for each function, by the domain that training uses."""
    domain = mined("tasks")
    splits = ("train", "eval")
    tasks = [
        domain.task(split, level, index)  # type: ignore[arg-type]
        for split in splits
        for level in range(domain.levels)
        for index in range(domain.size(split, level) or 0)  # type: ignore[arg-type]
    ]

    async def all_of() -> dict[str, float]:
        sandbox: Sandbox = await Local(workers=1).open()
        try:
            found = {}
            for task in tasks:
                function = task.reference["problem"]["function"]
                text = answers.get(function) or answers["*"].format(f=function, gold=task.reference["answer"])
                turn = Turn(Message("assistant", text), (1,), (0.0,), 0)
                attempt = Trajectory(task, (turn,), "stop")
                found[function] = (await domain.verify(attempt, sandbox, {})).value
            return found
        finally:
            await sandbox.close()

    return asyncio.run(all_of())


def test_the_domain_gives_the_solution_everything_and_no_work_little(folder: Path) -> None:
    gold = judged(folder, {"*": "```python\n{gold}\n```"})
    assert gold == dict.fromkeys(["double", "apply_all", "joined", "divided", "shown"], 1.0)
    empty = judged(folder, {"*": "def {f}(*a, **k): pass"})
    assert len(empty) == 5
    assert max(empty.values()) <= 0.6


def test_another_right_solution_earns_everything_too(folder: Path) -> None:
    found = judged(
        folder,
        {
            "joined": "def joined(a, b):\n    return [*a, *b]",
            "double": "def double(n): return n + n",
            "*": "def {f}(",
        },
    )
    # n + n is not n * 2 for what can be multiplied but not added.
    assert found["joined"] == found["double"] == 1.0
    assert found["divided"] == -1.0


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one_function.py").write_text(
        'def f(x):\n    """\n    >>> f(1)\n    2\n    """\n    return 2 * x\n'
    )
    monkeypatch.chdir(tmp_path)

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program.run("one_function", tmp_path / "out", program.Limits(), interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["one_function.py"]


def test_wrong_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare_module.py").write_text('def f():\n    """Nothing."""\n')
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, said in [
        (["more-itertoolz", "--out", "new"], "Did you mean 'more-itertools'?"),
        (["bare_module", "--out", "new"], "has a doctest"),
        (["toolz", "--out", "full"], "is not an empty directory"),
        (["toolz", "--out", "full/file"], "is not an empty directory"),
    ]:
        assert guarded(lambda arguments=arguments: app(["mine", *arguments])) == 2
        error = capsys.readouterr().err
        assert said in error
        assert len(error.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_a_function_that_is_out_of_time_is_told(folder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(program.InputError, match="not reached in time: 10"):
        program.run("small_pkg", tmp_path / "out", program.Limits(60.0, 0.0), lines.append)
    assert len(lines) == 10
