"""The learning curves: an SVG from a run folder, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posttrain.demo.curves import draw
from posttrain.errors import RunFolderError


def test_each_domain_gets_a_panel(tmp_path: Path) -> None:
    rows = [
        {"step": step, "domain": name, "success_mean": value}
        for step in range(1, 4)
        for name, value in [("sums", 0.1 * step), ("words", None if step == 2 else 0.5)]
    ]
    (tmp_path / "domains.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = draw(tmp_path, tmp_path / "deep" / "curves.svg")
    text = out.read_text()
    assert text.count('id="axes_') == 2
    assert draw(tmp_path, tmp_path / "again.svg").read_text() == text


def test_a_folder_without_curves_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"no domains\.jsonl"):
        draw(tmp_path, tmp_path / "curves.svg")
    (tmp_path / "domains.jsonl").write_text("")
    with pytest.raises(RunFolderError, match="no judged attempt"):
        draw(tmp_path, tmp_path / "curves.svg")
