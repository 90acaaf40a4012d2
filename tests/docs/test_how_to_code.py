"""The how-to page on programming tasks does what it says: files written, commands run, snippets executed."""

from __future__ import annotations

import os
import re
import shlex
import sys
from functools import partial
from pathlib import Path

import pytest

from posttrain.cli import app, guarded

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "code.md"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    blocks = BLOCK.findall(PAGE.read_text())
    for _, name, content in blocks:
        if name:
            (tmp_path / name).write_text(content)
    commands = 0
    for language, name, content in blocks:
        if language == "python" and not name:
            exec(compile(content, str(PAGE), "exec"), {})
        for line in content.splitlines() if language == "console" else ():
            program, *arguments = shlex.split(line.removeprefix("$ "))
            assert program == "posttrain"
            assert guarded(partial(app, arguments)) == 0, line
            commands += 1
    assert commands == 2
    assert os.path.isdir("runs/warm-up")
