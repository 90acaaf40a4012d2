"""The pages on mathematics and on quality: their configurations build, their snippets run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .pages import build_fragments, follow


def test_the_domains_of_the_page_on_mathematics_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"problem": f"{n} + {n}?", "solution": str(2 * n)} for n in range(100)]
    (tmp_path / "problems.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    assert build_fragments("math.md", tmp_path) == 1


def test_the_page_on_quality_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow("quality.md", tmp_path, monkeypatch)
    assert build_fragments("quality.md", tmp_path) == 1
