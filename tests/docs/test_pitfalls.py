"""Every trap on the page names a test that exists, and the page on checks names every rule."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from posttrain.check.program import check
from posttrain.cli import app, guarded

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pitfalls.md").read_text()
HOW_TO = (ROOT / "docs" / "how-to" / "check.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PARAGRAPHS = [part for part in PAGE.split("\n\n") if part.startswith("**")]


def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("paragraph", PARAGRAPHS, ids=lambda text: text[2:40])
def test_a_trap_names_tests_that_exist(paragraph: str) -> None:
    named = NAMED.findall(paragraph)
    assert named
    assert paragraph.count("::") == len(named)
    for path, name in named:
        assert name in functions(ROOT / path), f"{path} has no {name}"


def test_the_page_has_a_trap_in_every_paragraph() -> None:
    assert len(PARAGRAPHS) >= 30
    headings = [part for part in PAGE.split("\n\n") if part.startswith("#")]
    assert len(PAGE.strip().split("\n\n")) == len(PARAGRAPHS) + len(headings) + 1


def test_the_page_on_checks_names_every_rule_of_the_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    learner = check(str(ROOT / "configs" / "tiny.toml")).sections[-1]
    for outcome in learner.outcomes:
        rule = outcome.rule.split(",")[0]
        assert f"| {rule}" in HOW_TO, rule


def test_the_commands_on_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_domain.py").write_text((ROOT / "examples" / "own_domain.py").read_text())
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    commands = re.findall(r"^\$ posttrain (.*)$", HOW_TO, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert guarded(lambda command=command: app(shlex.split(command))) == 0, command
    assert (tmp_path / "unit-conversion" / "train.toml").is_file()
