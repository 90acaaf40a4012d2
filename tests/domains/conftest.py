"""Domains over rows that a test makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.domains.rows import rows
from posttrain.types import Domain

from .rewarded import ROWS


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Domain]:
    def made(reward: Any, cells: list[dict[str, Any]] = ROWS, **settings: Any) -> Domain:
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in cells))
        return rows(str(path), reward=reward, **settings)

    return made
