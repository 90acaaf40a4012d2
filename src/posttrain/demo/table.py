"""The demo's closing table: base → warm-up → RL for each domain, beside the best constant answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.measures.intervals import Interval, clustered_mean
from posttrain.measures.report import OVERALL, ComparisonRow, Scores, compare
from posttrain.types import JSON


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One domain's success before and after; `gain` is RL over the warm-up, paired by task."""

    domain: str
    constant: float
    base: float
    comparison: ComparisonRow

    @property
    def gain(self) -> Interval:
        return self.comparison.difference

    @property
    def verdict(self) -> str:
        """Return gain or loss where significant (Holm, 5 %); a gain below the best constant says so."""
        if self.comparison.verdict != "gain":
            return self.comparison.verdict
        return "gain" if self.comparison.other > self.constant else "gain, below constant"

    def cells(self) -> dict[str, str]:
        """Return the row's columns as text."""
        p_value = self.comparison.adjusted_p_value
        return {
            "domain": self.domain,
            "best constant": f"{self.constant:.2f}",
            "base": f"{self.base:.2f}",
            "warm-up": f"{self.comparison.base:.2f}",
            "RL": f"{self.comparison.other:.2f}",
            "RL − warm-up [95 %]": f"{self.gain.mean:+.2f} [{self.gain.low:+.2f}, {self.gain.high:+.2f}]",
            "p (Holm)": "" if p_value is None else f"{p_value:.3f}",
            "": self.verdict,
        }

    def as_json(self) -> dict[str, JSON]:
        """Return the row as plain JSON."""
        return {**self.comparison.as_json(), "base_model": self.base, "verdict": self.verdict}


def demo_rows(base: Scores, warm: Scores, final: Scores) -> list[DemoRow]:
    """Return one row for each domain and, last, the mean over them."""
    compared = compare(warm, final)
    means = {name: clustered_mean(scores.by_task).mean for name, scores in base.domains.items()}
    means[OVERALL] = sum(means.values()) / len(means)
    return [
        DemoRow(row.domain, math.inf if row.constant is None else row.constant, means[row.domain], row)
        for row in compared
    ]


def holds(rows: Sequence[DemoRow]) -> dict[str, bool]:
    """Return the demo's claims, each with whether these figures bear it out."""
    domains, overall = rows[:-1], rows[-1].gain
    return {
        "mean gain of RL over the warm-up is at least 0.10": overall.mean >= 0.10,
        "its 95 % interval lies above zero": overall.low > 0.0,
        "at least 3 domains gain significantly and stand above the best constant answer": sum(
            row.verdict == "gain" for row in domains
        )
        >= 3,
        "no domain loses significantly": not any(row.verdict == "loss" for row in domains),
    }
