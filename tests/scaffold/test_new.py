"""`posttrain new`: what it writes keeps its contract, passes its own tests and trains, at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.scaffold.package import FILES, TEMPLATES, create

SOURCE = Path(__file__).parents[2] / "src"


def run(*arguments: str) -> int:
    return guarded(lambda: app(list(arguments), standalone_mode=True))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a new package's folder, made the working directory."""
    assert run("new", "unit-conversion-of-test", "--dir", str(tmp_path)) == 0
    folder = tmp_path / "unit-conversion-of-test"
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield folder
    for module in [name for name in sys.modules if name.partition(".")[0] == "unit_conversion_of_test"]:
        del sys.modules[module]


def test_it_passes_its_check_and_trains_with_its_config(made: Path, capsys) -> None:
    assert run("check", "unit_conversion_of_test.domain:domain") == 0
    verdicts = ("unit_conversion_of_test.verifier:verify", "first=d", "second=q", "answer=d")
    assert run("check", *verdicts) == 0
    assert "all hold" in capsys.readouterr().out
    assert run("train", "train.toml", "run.steps=2", "run.attempts=4", "--run", "runs/first") == 0
    rows = [json.loads(line) for line in (made / "runs/first/metrics.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert (made / "runs/first/adapter/adapter_model.safetensors").is_file()


def test_its_own_tests_pass(made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_every_template_is_used_filled_in_and_names_the_package(made: Path) -> None:
    assert {path.name for path in TEMPLATES.iterdir()} == set(FILES.values())
    written = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert written == {path.format(package="unit_conversion_of_test") for path in FILES}
    assert all("$" not in path.read_text() for path in made.rglob("*") if path.is_file())
    project = tomllib.loads((made / "pyproject.toml").read_text())
    assert project["project"]["name"] == "unit-conversion-of-test"
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["unit_conversion_of_test"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Upper", "is not a name"),
        ("1st", "is not a name"),
        ("a b", "is not a name"),
        ("../up", "is not a name"),
        ("", "is not a name"),
        ("x" * 51, "is not a name"),
        ("class", "would hide a name"),
        ("json", "would hide a name"),
        ("posttrain", "would hide a name"),
        ("torch", "is installed already"),
    ],
)
def test_an_invalid_name_is_one_line_and_exit_2(name: str, reason: str, tmp_path: Path, capsys) -> None:
    assert run("new", "--dir", str(tmp_path), "--", name) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_as_it_is(tmp_path: Path, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("precious")
    assert run("new", "mine", "--dir", str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert "exists already" in said
    assert said.count("\n") == 1
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["work.txt"]
    assert run("new", "mine", "--dir", str(tmp_path / "nowhere")) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err


def test_a_folder_that_could_not_be_finished_is_not_left_half_there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("posttrain.scaffold.package.FILES", {**FILES, "z.txt": "missing.template"})
    with pytest.raises(FileNotFoundError):
        create("whole", tmp_path)
    assert list(tmp_path.iterdir()) == []
