"""Where TRL is: a folder of its own beside this interpreter's torch, so that it changes nothing here."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from posttrain.errors import ConfigError

SERIES = "1.16"
NEEDED = ("accelerate", "datasets", "peft", "transformers")


@dataclass(frozen=True, slots=True)
class Overlay:
    """A folder that pip filled with TRL alone, and the version in it."""

    folder: Path
    version: str


def overlay(folder: Path) -> Overlay:
    """Return what is in `folder`; ConfigError where it is not TRL 1.16 or cannot work here."""
    found = sorted(folder.glob("trl-*.dist-info"))
    if not found or not (folder / "trl" / "__init__.py").is_file():
        raise ConfigError(f"{str(folder)!r} holds no TRL", key="--trl", hint=f"Make it: {command(folder)}")
    version = found[-1].name.removeprefix("trl-").removesuffix(".dist-info")
    if version.split(".")[:2] != SERIES.split("."):
        raise ConfigError(
            f"{str(folder)!r} holds TRL {version}, the comparison is written for {SERIES}",
            key="--trl",
            hint=f"Make another: {command(Path('DIR'))}",
        )
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"TRL needs {', '.join(missing)}, which this environment lacks",
            key="--trl",
            hint=f"Run: {sys.executable} -m pip install {' '.join(missing)}",
        )
    return Overlay(folder.resolve(), version)


def command(folder: Path) -> str:
    """Return the command line that fills `folder`."""
    return f"{sys.executable} -m pip install --target {folder} --no-deps 'trl=={SERIES}.*'"


ABSENT = f"absent: no --trl folder was given; make one: {command(Path('DIR'))}"


def peer_script(name: str) -> Path:
    """Return the script that runs inside a peer's process; it comes with the source checkout."""
    path = Path(__file__).parents[3] / "benchmarks" / "peers" / name
    if not path.is_file():
        raise ConfigError(
            f"the peer's script {path} is not there",
            hint="It is not part of the wheel: install posttrain from a source checkout, editable.",
        )
    return path
