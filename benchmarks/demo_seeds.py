"""Several runs of the demo as one Markdown table: `python benchmarks/demo_seeds.py RUN [RUN …]`.

Each RUN is a folder that `posttrain demo` has written. Nothing is averaged away: every seed has its own
columns, and the last row says which of the demo's claims its figures bear out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def read(run: Path) -> dict[str, Any]:
    """Return a run's report."""
    report: dict[str, Any] = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return report


def cell(row: dict[str, Any]) -> str:
    """Return 'warm-up → RL (gain [low, high]) verdict' of one domain in one run."""
    gain = row["difference"]
    interval = f"{gain['mean']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"
    return f"{row['base']:.2f} → {row['other']:.2f} ({interval}) {row['verdict']}".strip()


def table(reports: list[dict[str, Any]], names: list[str]) -> str:
    """Return the Markdown table of all reports, one column each."""
    lines = [
        "| domain | best constant | " + " | ".join(names) + " |",
        "|---|---:|" + "---|" * len(names),
    ]
    for rows in zip(*(report["rows"] for report in reports), strict=True):
        constant = rows[0]["constant"]
        cells = " | ".join(cell(row) for row in rows)
        lines.append(f"| {rows[0]['domain']} | {constant:.2f} | {cells} |")
    claims = [f"{sum(r['claims'].values())} of {len(r['claims'])} claims" for r in reports]
    cost = [f"{r['seconds'] / 60:.1f} min, {r['peak_memory_bytes'] / 2**30:.1f} GiB" for r in reports]
    lines += [f"| | | {' | '.join(claims)} |", f"| | | {' | '.join(cost)} |"]
    return "\n".join(lines)


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:]]
    if not folders:
        sys.exit("usage: python benchmarks/demo_seeds.py RUN [RUN ...]")
    print(table([read(folder) for folder in folders], [folder.name for folder in folders]))
