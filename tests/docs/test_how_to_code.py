"""The how-to page on programming tasks does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import follow


def test_the_page_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow("code.md", tmp_path, monkeypatch) == 2
    assert (tmp_path / "runs" / "warm-up").is_dir()
