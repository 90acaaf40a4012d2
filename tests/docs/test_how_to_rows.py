"""The how-to pages on rows do what they say: commands run, snippets executed, settings real."""

from __future__ import annotations

import ast
import inspect
import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from posttrain import assembly
from posttrain.algorithms import ALGORITHMS
from posttrain.assembly.parts import DOMAIN_KEYS
from posttrain.config import find
from posttrain.domains.rows import rows

from .pages import HOW_TO, blocks, build_fragments, follow

FOREIGN = ("train_trl.py",)
"""Scripts of other trainers, shown for comparison and checked, not run."""


def parts_of(run_folder: Path) -> set[str]:
    """Return the names of all parts of the rewards that a run recorded."""
    lines = [line for file in run_folder.glob("groups/*.jsonl") for line in file.read_text().splitlines()]
    attempts = [attempt for line in lines for attempt in json.loads(line)["attempts"]]
    return {name for attempt in attempts for name in attempt["reward"]["parts"]}


def test_rows_of_ones_own_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.jsonl").write_text('{"prompt": "1 + 1?", "answer": 2}\n')
    (tmp_path / "test.jsonl").write_text('{"prompt": "1 + 2?", "answer": 3}\n')
    follow("rows.md", tmp_path, monkeypatch)
    assert build_fragments("rows.md", tmp_path) == 1
    assert parts_of(tmp_path / "runs" / "rl") == {"exact", "digits", "brief"}


def test_extraction_warms_up_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("extraction.md", tmp_path, monkeypatch)
    assert build_fragments("extraction.md", tmp_path) == 1
    assert (tmp_path / "runs" / "warm-up" / "adapter").is_dir()


def test_tools_warm_up_and_are_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("tools.md", tmp_path, monkeypatch)
    assert (tmp_path / "runs" / "warm-up" / "adapter").is_dir()


def test_what_ran_under_trl_trains_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("from_trl.md", tmp_path, monkeypatch)
    assert parts_of(tmp_path / "runs" / "rl") == {"accuracy", "digits", "digits.characters"}


def test_what_ran_under_verl_trains_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("from_verl.md", tmp_path, monkeypatch)
    assert build_fragments("from_verl.md", tmp_path) == 1
    assert parts_of(tmp_path / "runs" / "rl") == {"compute_score", "compute_score.digits"}


# --- the tables ---------------------------------------------------------------------------------------


def tables(page: str) -> list[tuple[str, str]]:
    """Return (theirs, ours) of every row of the page's mapping tables."""
    lines = [line for line in (HOW_TO / page).read_text().splitlines() if line.startswith("| ")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [(cells[0], cells[1]) for cells in split if len(cells) == 2]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def settings(owner: Any) -> dict[str, Any]:
    """Return the settings of a dataclass by name, with their types."""
    kinds = get_type_hints(owner)
    return {field.name: kinds[field.name] for field in fields(owner)}


def is_setting(path: str) -> bool:
    """Tell whether a dotted path is a setting of a configuration, of an algorithm, or of `rows`."""
    top, *rest = path.split(".")
    if top == "domains":
        return rest[0] in DOMAIN_KEYS or rest[0] in inspect.signature(rows).parameters
    if top == "algorithm":
        classes = [find(name, ALGORITHMS, source="", key="", expected="an algorithm") for name in ALGORITHMS]
        return rest == ["use"] or any(rest[0] in settings(each) for each in classes)
    kind: Any = assembly.Config
    for name in (top, *rest):
        kind = next((each for each in (kind, *get_args(kind)) if is_dataclass(each)), None)
        if kind is None or name not in settings(kind):
            return False
        kind = settings(kind)[name]
    return True


@pytest.mark.parametrize("page", ["from_trl.md", "from_verl.md"])
def test_every_setting_in_a_table_exists(page: str) -> None:
    named = [text for _, ours in tables(page) for text in quoted(ours)]
    paths = [text for text in named if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", text)]
    assert len(paths) > 25
    assert [path for path in paths if not is_setting(path)] == []
    uses = [use for text in named if (use := re.fullmatch(r'algorithm\.use = "(\w+)"', text))]
    assert uses
    assert all(use[1] in ALGORITHMS for use in uses)


def test_a_setting_that_does_not_exist_would_be_noticed() -> None:
    for path in ("run.atempts", "model.lora.rnk", "algorithm.clip", "domains.rewards", "nothing.at_all"):
        assert not is_setting(path)


@pytest.mark.parametrize("page", ["from_trl.md", "from_verl.md"])
def test_every_setting_of_the_before_stands_in_a_table(page: str) -> None:
    known = " ".join(theirs for theirs, _ in tables(page))
    if page == "from_trl.md":
        script = next(block.text for block in blocks(page) if block.file in FOREIGN)
        calls = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
        used = {
            k.arg for call in calls for k in call.keywords if getattr(call.func, "id", "") == "GRPOConfig"
        }
    else:
        script = next(block.text for block in blocks(page) if block.language == "bash")
        used = set(re.findall(r"^ +([a-z_.]+)=", script, re.MULTILINE))
    assert len(used) >= 8
    assert [name for name in used if name and name not in known] == []


def test_the_settings_of_trl_exist_in_trl() -> None:
    trl = pytest.importorskip("trl")
    known = {field.name for field in fields(trl.GRPOConfig)}
    words = {
        w
        for theirs, _ in tables("from_trl.md")
        for text in quoted(theirs)
        for w in re.findall(r"^[a-z_]+", text)
    }
    others = {
        "model_name_or_path", "model", "dtype", "formatting", "apply_chat_template", "reward_funcs",
        "environment_factory", "tools", "eval_dataset",
    }  # fmt: skip
    assert sorted(words - known - others) == []
