"""A run's learning curve per domain as an SVG, drawn from its run folder alone."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from posttrain.errors import InputError, RunFolderError
from posttrain.records.metrics import read_rows

WINDOW = 10
"""Steps in the running mean: single steps of 8 attempts are too noisy to read."""


def draw(run: Path, out: Path) -> Path:
    """Write the success of training attempts over steps, one panel for each domain; return the file.

    Raises RunFolderError where there is nothing to draw, InputError without matplotlib.
    """
    curves = _curves(run)
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("drawing needs matplotlib. Install it: pip install matplotlib") from None
    columns = min(5, len(curves))
    rows = math.ceil(len(curves) / columns)
    figure = Figure(figsize=(2.4 * columns, 1.9 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for panel, (name, points) in zip(panels, sorted(curves.items()), strict=False):
        steps, success = np.array(points, dtype=float).T
        panel.plot(steps, success, ".", color="0.8", markersize=3)
        panel.plot(steps, _running_mean(success), color="tab:blue")
        panel.set_title(name, fontsize=8)
        panel.set_ylim(-0.02, 1.02)
        panel.tick_params(labelsize=7)
    for panel in panels[len(curves) :]:
        panel.set_axis_off()
    figure.supxlabel("step", fontsize=8)
    figure.supylabel(f"success of training attempts (line: mean of {WINDOW} points)", fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    # A fixed salt and no date: equal runs give equal files.
    with rc_context({"svg.hashsalt": "posttrain", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out


def _curves(run: Path) -> dict[str, list[tuple[float, float]]]:
    path = run / "domains.jsonl"
    if not path.is_file():
        raise RunFolderError(f"{run}: no domains.jsonl, so there is no curve. Give the folder of an RL run.")
    curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in read_rows(path, print):
        if row.get("success_mean") is not None:
            curves[str(row["domain"])].append((row["step"], row["success_mean"]))
    if not curves:
        raise RunFolderError(
            f"{path}: no judged attempt yet, so there is no curve. Wait for a step to finish."
        )
    return curves


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of up to WINDOW points that end at each point."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - WINDOW)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))
