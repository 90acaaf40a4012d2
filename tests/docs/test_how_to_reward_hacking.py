"""The how-to page on reward hacking does what it says, and its tables name what there is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from posttrain.rewards.integrity import FLAGS, Integrity

from .pages import HOW_TO, blocks, follow


def test_the_page_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any(block.language == "python" and not block.file for block in blocks("reward_hacking.md"))
    assert follow("reward_hacking.md", tmp_path, monkeypatch) == 2
    assert (tmp_path / "runs" / "warm-up" / "adapter").is_dir()


def test_every_flag_and_setting_is_described() -> None:
    text = (HOW_TO / "reward_hacking.md").read_text()
    settings = {field.name for field in fields(Integrity)} - set(FLAGS) - {"max_removals"}
    assert [name for name in (*FLAGS, *settings) if f"`{name}`" not in text and f"{name} =" not in text] == []
