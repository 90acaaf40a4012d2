"""Progress on the terminal: a live table where there is one, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

Row = Mapping[str, float | int | str | None]
SMOOTHED_STEPS = 10


@dataclass(slots=True)
class Progress:
    """Show where a run of `total` steps stands; use as a context manager."""

    title: str
    total: int
    console: Console = field(default_factory=lambda: Console(file=sys.stderr))
    _live: Live | None = None
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=SMOOTHED_STEPS))
    _success: dict[str, deque[float]] = field(default_factory=dict)
    _level: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def say(self, text: str) -> None:
        """Print a line above the live table, with control characters (a model may write some) spelt out."""
        shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
        self.console.print(escape(shown), highlight=False, soft_wrap=True)

    def step(self, row: Row, domains: Sequence[Row] = ()) -> None:
        """Show one finished step: its metrics and those of its domains."""
        self._seconds.append(_number(row.get("seconds_step")))
        for domain in domains:
            name, success = str(domain["domain"]), domain.get("success_mean")
            if success is not None:
                self._success.setdefault(name, deque(maxlen=SMOOTHED_STEPS)).append(float(success))
                self._level[name] = int(domain.get("level") or 0)
        line = self._line(row)
        if self._live is not None:
            self._live.update(Group(Text(line), self._table()))
        else:
            self.console.print(escape(line), highlight=False, soft_wrap=True)
        if isinstance(row.get("skipped"), str):
            self.say(f"  step {row['step']}: no update: {row['skipped']}")

    def _line(self, row: Row) -> str:
        step = int(_number(row["step"]))
        left = (self.total - step) * fmean(self._seconds)
        parts = [f"{self.title} {step}/{self.total}"]
        for name, key, form in [
            ("reward", "reward_mean", ".3f"),
            ("success", "success_mean", ".3f"),
            ("signal", "signal_share", ".0%"),
            ("loss", "loss", ".4f"),
            ("tok/s", "tokens_per_second", ".0f"),
            ("waiting for verdicts", "verify_share", ".0%"),
        ]:
            value = row.get(key)
            if isinstance(value, int | float):
                parts.append(f"{name} {value:{form}}")
        for name in ("unjudged", "flagged", "quarantined"):
            if count := row.get(f"num_{name}"):
                parts.append(f"{name} {count}")
        parts.append(f"{fmean(self._seconds):.1f} s/step")
        parts.append(
            f"ETA {time.strftime('%M:%S' if left < 3600 else '%H:%M:%S', time.gmtime(max(0, left)))}"
        )
        return "  ".join(parts)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2))
        for column in ("domain", "level", f"success, last {SMOOTHED_STEPS} steps"):
            table.add_column(column)
        for name, values in sorted(self._success.items()):
            mean = fmean(values)
            table.add_row(escape(name), str(self._level[name]), f"{mean:.2f} " + "█" * round(20 * mean))
        return table


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
