"""The page on mining does what it says: its package is mined, and a run on it is set up."""

from pathlib import Path

import pytest

from posttrain.domains.mined_rows import read

from .pages import follow


def test_a_package_of_ones_own_is_mined_and_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert follow("mine.md", tmp_path, monkeypatch) == 2
    assert 'use = "mined' in capsys.readouterr().out
    names = {row.problem.function for row in read(tmp_path / "tasks")}
    assert names == {"initials", "longest", "sentences", "counted"}
