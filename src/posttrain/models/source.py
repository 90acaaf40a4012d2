"""What `model.source` may say: a known name, a folder, or an id on the model hub."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from pathlib import Path

from posttrain.errors import ConfigError
from posttrain.models import smollm2, tiny

KNOWN: dict[str, Callable[[Path], Path]] = {"smollm2-135m": smollm2.fetch, "tiny": tiny.fetch}
"""Models that need no hub: name to the function that puts one into a cache and gives its folder."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def cache_folder() -> Path:
    """Return where converted models are kept: $POSTTRAIN_CACHE, or posttrain/ in the user's cache."""
    if own := os.environ.get("POSTTRAIN_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "posttrain"


def resolve(source: str) -> Path | str:
    """Return the folder that `source` names, made or fetched if need be, or the hub id unchanged.

    Raises ConfigError for anything else, with the nearest known name.
    """
    if source in KNOWN:
        return KNOWN[source](cache_folder())
    folder = Path(source).expanduser()
    if source and folder.is_dir():
        return _checked(folder)
    if _HUB_ID.fullmatch(source):
        return source
    near = difflib.get_close_matches(source, KNOWN, n=1, cutoff=0.4)
    raise ConfigError(
        f"{source!r} is neither a known model, nor a folder, nor a hub id (owner/name)",
        key="model.source",
        hint=f"Did you mean {near[0]!r}?" if near else f"Known models: {', '.join(KNOWN)}.",
    )


def _checked(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"the folder {str(folder)!r} has no config.json",
            key="model.source",
            hint="Give a folder written by save_pretrained; a LoRA adapter goes to model.adapter.",
        )
    return folder
