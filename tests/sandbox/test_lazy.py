"""A run's sandbox starts when something needs it, not before, and refuses what it cannot be early."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from posttrain.assembly import read
from posttrain.errors import ConfigError
from posttrain.sandbox import Limits, Local, Program

sys.path.insert(0, str(Path(__file__).parent))
from opened import children

TINY = Path(__file__).parents[2] / "configs" / "tiny.toml"


def test_a_lazy_sandbox_starts_no_process_until_it_is_used() -> None:
    before = children(os.getpid())
    sandbox = Local(workers=1).lazy()
    assert children(os.getpid()) == before
    result = asyncio.run(sandbox.run(Program("python", "print(1)"), Limits(5, 20)))
    assert result.stdout == b"1\n"
    assert len(children(os.getpid())) == len(before) + 1
    asyncio.run(sandbox.close())
    assert children(os.getpid()) == before


def test_a_sandbox_that_was_never_used_is_closed_without_a_word() -> None:
    asyncio.run(Local(workers=1).lazy().close())


def test_a_configuration_names_its_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(TINY.read_text() + '\n[sandbox]\nmin_level = "namespaces"\nworkers = 3\n')
    assert read(path).sandbox == Local(min_level="namespaces", workers=3)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('min_level = "none"', "unsafe = true"),
        ('min_level = "some"', "sandbox.min_level"),
        ("workers = -1", "sandbox.workers"),
        ('import_folders = ["here"]', "sandbox.import_folders"),
        ("min_levels = 1", "Did you mean 'min_level'"),
    ],
)
def test_a_sandbox_that_cannot_be_is_refused_with_file_and_key(
    tmp_path: Path, lines: str, words: str
) -> None:
    path = tmp_path / "run.toml"
    path.write_text(f"{TINY.read_text()}\n[sandbox]\n{lines}\n")
    with pytest.raises(ConfigError, match=words) as caught:
        read(path)
    assert "run.toml" in str(caught.value)
