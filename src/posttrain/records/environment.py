"""What a run ran on: versions, revision, threads, processor; pinned in every run and checkpoint."""

from __future__ import annotations

import importlib.metadata
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal

Exactness = Literal["state-exact", "replay-exact", "run-exact"]
"""What a resumed run promises. state-exact: all that was saved is restored; replay-exact: also, the same
records give the same weights bit for bit; run-exact: also, the run equals one that was never interrupted."""

_PACKAGES = ("posttrain", "torch", "transformers")


def describe_environment(device: str, dtype: str) -> dict[str, Any]:
    """Return the facts that a bitwise equal run must share, as plain JSON; loads torch."""
    import torch

    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "device": device,
        "device_name": _device_name(device),
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "git": git_revision(),
    }


def compare_environments(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return one line for each fact that differs, so that lost exactness is said out loud."""
    keys = sorted({*old, *new})
    return [f"{key}: {old.get(key)} → {new.get(key)}" for key in keys if old.get(key) != new.get(key)]


def git_revision() -> str | None:
    """Return the revision of the current folder, '+changes' appended if edited; None outside git."""
    revision = _git("rev-parse", "HEAD")
    if not revision:
        return None
    return revision + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(("git", *arguments), capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    return platform.processor() or platform.machine()


def peak_memory_bytes() -> int:
    """Return the most memory this process has held (device memory where there is a GPU)."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
