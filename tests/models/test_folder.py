import threading
from pathlib import Path

import pytest
from transformers.utils import logging as transformers_logging

from posttrain.models.folder import publish, quiet


def test_a_failed_build_leaves_nothing_behind(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        publish(tmp_path / "model", build)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_not_built_again(tmp_path: Path) -> None:
    publish(tmp_path / "model", lambda folder: (folder / "a").touch())
    publish(tmp_path / "model", lambda folder: (folder / "b").touch())
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["a"]


def test_of_two_builders_at_once_one_wins_whole(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def build(folder: Path, name: str) -> None:
        (folder / f"{name}1").touch()
        both.wait(10)
        (folder / f"{name}2").touch()

    threads = [
        threading.Thread(target=publish, args=(tmp_path / "model", lambda f, n=name: build(f, n)))
        for name in "xy"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names in (["x1", "x2"], ["y1", "y2"])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_quiet_restores_what_it_silenced_even_after_an_error() -> None:
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()

    def fail() -> None:
        with quiet():
            assert not transformers_logging.is_progress_bar_enabled()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before
