"""The how-to page on reward hacking does what it says, and its tables name what there is."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.rewards.integrity import FLAGS, Integrity

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "reward_hacking.md"
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    blocks = BLOCK.findall(PAGE.read_text())
    for _, name, content in blocks:
        if name:
            (tmp_path / name).write_text(content)
    commands = [
        line.removeprefix("$ ")
        for language, _, content in blocks
        if language == "console"
        for line in content.splitlines()
    ]
    assert len(commands) == 2
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "posttrain"
        assert guarded(partial(app, arguments)) == 0
    assert (tmp_path / "runs" / "warm-up" / "adapter").is_dir()


def test_the_snippet_runs() -> None:
    snippets = [
        content for language, name, content in BLOCK.findall(PAGE.read_text()) if language == "python"
    ]
    assert len(snippets) == 1
    exec(compile(snippets[0], str(PAGE), "exec"), {})


def test_every_flag_and_setting_is_described() -> None:
    text = PAGE.read_text()
    settings = {field.name for field in fields(Integrity)} - set(FLAGS) - {"max_removals"}
    assert [name for name in (*FLAGS, *settings) if f"`{name}`" not in text and f"{name} =" not in text] == []
