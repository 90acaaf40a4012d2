"""Tables of an evaluation: one row per domain, plain data that renders as text, Markdown or JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from posttrain.measures.intervals import Interval, clustered_mean, interval_of_means, task_means
from posttrain.measures.paired import Difference, holm, paired_difference
from posttrain.measures.pass_at_k import pass_at_k, pass_hat_k
from posttrain.types import JSON

OVERALL = "mean over domains"


@dataclass(frozen=True, slots=True)
class DomainScores:
    """The judged attempts of one domain by task (1.0 success, 0.0 failure), and what was not judged."""

    by_task: Mapping[str, tuple[float, ...]]
    num_unjudged: int = 0
    num_truncated: int = 0


@dataclass(frozen=True, slots=True)
class Scores:
    """What one policy scored: its label and the attempts of every domain."""

    label: str
    domains: Mapping[str, DomainScores]
    constants: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One domain: pass@1 with its interval, pass@k and pass^k, and counts; k is the fewest attempts."""

    domain: str
    pass_1: Interval
    k: int
    pass_k: float
    pass_hat_k: float
    num_unjudged: int
    num_truncated: int
    constant: float | None

    def as_json(self) -> dict[str, JSON]:
        """Return the row as plain JSON; what is not finite becomes null."""
        return _plain(asdict(self))

    def cells(self) -> dict[str, str]:
        """Return the row's columns as text."""
        return {
            "domain": self.domain,
            "tasks": str(self.pass_1.num_tasks),
            "pass@1": _interval(self.pass_1),
            "pass@k": f"{_number(self.pass_k)} (k={self.k})",
            "pass^k": _number(self.pass_hat_k),
            "constant": "–" if self.constant is None else _number(self.constant),
            "unjudged": str(self.num_unjudged),
            "truncated": str(self.num_truncated),
        }


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One domain of two policies: both means, the paired difference, its p-value before and after Holm."""

    domain: str
    base: float
    other: float
    difference: Interval
    p_value: float
    adjusted_p_value: float | None
    constant: float | None

    @property
    def verdict(self) -> str:
        """Return "gain", "loss" or "" at a family-wise error of 5 %; "" for the mean row."""
        if self.adjusted_p_value is None or not self.adjusted_p_value <= 0.05:
            return ""
        return "gain" if self.difference.mean > 0 else "loss"

    def as_json(self) -> dict[str, JSON]:
        """Return the row as plain JSON; what is not finite becomes null."""
        return {**_plain(asdict(self)), "verdict": self.verdict}

    def cells(self) -> dict[str, str]:
        """Return the row's columns as text."""
        adjusted = "–" if self.adjusted_p_value is None else f"{self.adjusted_p_value:.3g}"
        return {
            "domain": self.domain,
            "base": _number(self.base),
            "other": _number(self.other),
            "difference": _interval(self.difference, signed=True),
            "p (Holm)": adjusted,
            "constant": "–" if self.constant is None else _number(self.constant),
            "verdict": self.verdict,
        }


class Rendered(Protocol):
    """A row that can be shown: column → text."""

    def cells(self) -> dict[str, str]: ...


def summarise(scores: Scores) -> list[Row]:
    """Return one row per domain, in the order of `scores`."""
    return [_row(name, domain, scores.constants.get(name)) for name, domain in scores.domains.items()]


def compare(base: Scores, other: Scores) -> list[ComparisonRow]:
    """Return one row per common domain and, last, the mean over them.

    P-values are adjusted over the domains (Holm). The last row's interval takes domains as fixed: its
    variance is the mean of the domains' variances over their number; it has no p-value of its own.
    """
    names = [name for name in base.domains if name in other.domains]
    found = {n: paired_difference(base.domains[n].by_task, other.domains[n].by_task) for n in names}
    adjusted = holm([found[name].p_value for name in names])
    constants = {**base.constants, **other.constants}
    rows = [
        _comparison(name, base, other, found[name], p, constants.get(name))
        for name, p in zip(names, adjusted, strict=True)
    ]
    return [*rows, _overall(rows)] if rows else []


def text_table(rows: Sequence[Rendered]) -> str:
    """Return rows as aligned plain text; the first column to the left, the others to the right."""
    cells = [row.cells() for row in rows]
    if not cells:
        return ""
    columns = list(cells[0])
    widths = {c: max(len(c), *(len(row[c]) for row in cells)) for c in columns}
    lines = [{c: c for c in columns}, *cells]
    return "\n".join(
        "  ".join(
            f"{line[c]:<{widths[c]}}" if c == columns[0] else f"{line[c]:>{widths[c]}}" for c in columns
        )
        for line in lines
    )


def markdown_table(rows: Sequence[Rendered]) -> str:
    """Return rows as a Markdown table; vertical bars in cells are escaped."""
    cells = [row.cells() for row in rows]
    if not cells:
        return ""
    columns = list(cells[0])
    rule = ["---", *["---:"] * (len(columns) - 1)]
    lines = [columns, rule, *([row[c].replace("|", "\\|") for c in columns] for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(name: str, domain: DomainScores, constant: float | None) -> Row:
    counts = [(len(values), sum(v >= 1.0 for v in values)) for values in domain.by_task.values() if values]
    k = min((n for n, _ in counts), default=0)
    any_of_k = [pass_at_k(n, c, k) for n, c in counts]
    all_of_k = [pass_hat_k(n, c, k) for n, c in counts]
    return Row(
        domain=name,
        pass_1=clustered_mean(domain.by_task),
        k=k,
        pass_k=_mean(any_of_k),
        pass_hat_k=_mean(all_of_k),
        num_unjudged=domain.num_unjudged,
        num_truncated=domain.num_truncated,
        constant=constant,
    )


def _comparison(
    name: str, base: Scores, other: Scores, found: Difference, adjusted: float, constant: float | None
) -> ComparisonRow:
    a, b = task_means(base.domains[name].by_task), task_means(other.domains[name].by_task)
    common = [task for task in a if task in b]
    return ComparisonRow(
        domain=name,
        base=_mean([a[task] for task in common]),
        other=_mean([b[task] for task in common]),
        difference=found.interval,
        p_value=found.p_value,
        adjusted_p_value=adjusted,
        constant=constant,
    )


def _overall(rows: Sequence[ComparisonRow]) -> ComparisonRow:
    """Average rows; independent domains, so half-widths add in squares."""
    mean = _mean([row.difference.mean for row in rows])
    margin = math.sqrt(math.fsum(row.difference.half_width**2 for row in rows)) / len(rows)
    num_tasks = sum(row.difference.num_tasks for row in rows)
    constants = [row.constant for row in rows if row.constant is not None]
    return ComparisonRow(
        domain=OVERALL,
        base=_mean([row.base for row in rows]),
        other=_mean([row.other for row in rows]),
        difference=Interval(mean, mean - margin, mean + margin, num_tasks),
        p_value=math.nan,
        adjusted_p_value=None,
        constant=_mean(constants) if len(constants) == len(rows) else None,
    )


def _mean(values: Sequence[float]) -> float:
    return interval_of_means(values).mean


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _interval(interval: Interval, signed: bool = False) -> str:
    if not math.isfinite(interval.half_width):
        return _number(interval.mean)
    sign = "+" if signed else ""
    return f"{interval.mean:{sign}.2f} [{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


def _plain(record: Mapping[str, object]) -> dict[str, JSON]:
    """Return nested floats as JSON, null where not finite: JSON has no NaN."""

    def plain(value: object) -> JSON:
        if isinstance(value, Mapping):
            return {str(key): plain(item) for key, item in value.items()}
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        return value if isinstance(value, bool | int | str) or value is None else str(value)

    return {key: plain(value) for key, value in record.items()}
