"""A page of the documentation as a reader uses it: files written, commands run, snippets executed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from posttrain import assembly
from posttrain.cli import app, guarded
from posttrain.config import build

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
_BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code: its language, the file it is, or '', and its text."""

    language: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of code of a how-to page, in order."""
    return [Block(*found) for found in _BLOCK.findall((HOW_TO / page).read_text())]


def follow(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Write the page's files, run its commands and snippets in order; return how many commands there were."""
    monkeypatch.chdir(folder)
    found, num_commands = blocks(page), 0
    for block in found:
        if block.file:
            (folder / block.file).write_text(block.text)
    for block in found:
        if block.language == "console":
            num_commands += _run(block.text)
        elif block.language == "python" and not block.file:
            exec(compile(block.text, page, "exec"), {})
    return num_commands


def _run(lines: str) -> int:
    commands = [line.removeprefix("$ ") for line in lines.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True, timeout=60)
        else:
            assert program == "posttrain"
            assert guarded(partial(app, arguments)) == 0, command
    return len(commands)


def build_fragments(page: str, folder: Path) -> int:
    """Build the domains of every fragment of a configuration; return how many there were."""
    fragments = [block.text for block in blocks(page) if block.language == "toml" and not block.file]
    for text in fragments:
        config = build(assembly.Config, tomllib.loads(text), source=page)
        assert assembly.domains(config, str(folder / "fragment.toml"))
    return len(fragments)
