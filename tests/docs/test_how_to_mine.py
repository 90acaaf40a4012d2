"""The page on mining does what it says: its package is mined, and a run on it is set up."""

import re
import shlex
from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.domains.mined_rows import read

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mine.md"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_package_of_ones_own_is_mined_and_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text())
    for _, name, content in blocks:
        if name:
            (tmp_path / name).write_text(content)
    commands = [line for kind, _, text in blocks if kind == "console" for line in text.splitlines()]
    assert len(commands) == 2
    for line in commands:
        command = shlex.split(line.removeprefix("$ posttrain "))
        assert guarded(lambda command=command: app(command)) == 0
    assert 'use = "mined' in capsys.readouterr().out
    names = {row.problem.function for row in read(tmp_path / "tasks")}
    assert names == {"initials", "longest", "sentences", "counted"}
