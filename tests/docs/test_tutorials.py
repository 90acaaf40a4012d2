"""Tutorials do what they say: their files are written and their commands run as a reader would."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from posttrain.cli import app, guarded

DOCS = Path(__file__).parents[2] / "docs"
FILE = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ posttrain (.*)$", re.MULTILINE)


def follow(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's files into `folder` and run its commands there, in order."""
    monkeypatch.chdir(folder)
    text = page.read_text()
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    commands = COMMAND.findall(text)
    assert commands
    for command in commands:
        assert guarded(lambda command=command: app(shlex.split(command))) == 0, command


def test_the_first_run_trains_resumes_and_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(DOCS / "tutorials" / "101_first_run.md", tmp_path, monkeypatch)
    run = tmp_path / "runs" / "vowels"
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 25
    (row, _) = json.loads((run / "eval.json").read_text())["comparison"]
    assert row["verdict"] == "gain"
    assert row["other"] > row["base"] + 0.3


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
