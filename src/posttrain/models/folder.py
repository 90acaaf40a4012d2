"""Model folders in a cache: made aside, then renamed into place, so that none is ever half there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers.utils import logging as transformers_logging


def publish(target: Path, build: Callable[[Path], object]) -> Path:
    """Return `target`, filled by `build(empty_folder)` if it is not there yet.

    Several processes may do this at once: the first to finish wins, the others discard their work.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as aside:
        made = Path(aside) / target.name
        made.mkdir()
        build(made)
        try:
            os.rename(made, target)
        except OSError:
            if not target.is_dir():
                raise
    return target


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' progress bars and advice off the terminal; errors still show."""
    bars, level = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
