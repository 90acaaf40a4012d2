"""Where TRL is for the tests that need it, and a peer that speaks the line protocol without being one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from posttrain.bench.overlay import Overlay, overlay


@pytest.fixture
def trl() -> Overlay:
    folder = os.environ.get("POSTTRAIN_TRL")
    if not folder:
        pytest.skip("POSTTRAIN_TRL does not name a folder with TRL")
    return overlay(Path(folder))


@pytest.fixture
def script(tmp_path: Path):
    """Return a function that writes a script and gives its path."""

    def write(text: str, name: str = "fake.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write
