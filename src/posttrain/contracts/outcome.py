"""What a contract suite saw, rule by rule: whether the rule holds, the evidence, a number and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from posttrain.contracts.finding import Finding
from posttrain.types import JSON

Status = Literal["holds", "broken", "shown", "skipped"]
"""`shown` is a figure without a bound; `skipped` could not be checked, and the evidence says why."""

MAX_SHOWN = 3
"""How many broken cases of one rule are spelt out; the rest are counted."""
MAX_EVIDENCE = 400
"""Characters of a piece of evidence: users' functions raise texts of any size."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One rule, what became of it, and why; a measured `value` stands beside the `bound` it must keep."""

    rule: str
    status: Status
    evidence: str
    value: float | None = None
    bound: float | None = None

    def as_json(self) -> dict[str, JSON]:
        """Return the outcome as plain JSON; a number that is not finite is left to the evidence."""
        finite = self.value if self.value is not None and math.isfinite(self.value) else None
        return {
            "rule": self.rule,
            "status": self.status,
            "evidence": self.evidence,
            "value": finite,
            "bound": self.bound,
        }


@dataclass(slots=True)
class _Tally:
    what: str
    num_cases: int = 0
    broken: list[str] = field(default_factory=list)


class Rules:
    """Gather what was seen of each rule over many cases, in the order in which rules were named."""

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}
        self._others: dict[str, Outcome] = {}

    def expect(self, rule: str, holds: bool, seen: str, what: str = "cases") -> bool:
        """Count one case of `rule` (`what` names the cases) and keep what was `seen` if it is broken."""
        tally = self._tallies.setdefault(rule, _Tally(what))
        tally.num_cases += 1
        if not holds:
            tally.broken.append(cut(seen))
        return holds

    def skip(self, rule: str, why: str) -> None:
        """Say that a rule could not be checked, unless some case of it was."""
        self._others[rule] = Outcome(rule, "skipped", why)

    def show(self, rule: str, evidence: str, value: float | None = None) -> None:
        """Show a figure that no bound belongs to."""
        self._others[rule] = Outcome(rule, "shown", evidence, value)

    @property
    def findings(self) -> list[Finding]:
        """Return every broken case."""
        return [Finding(rule, seen) for rule, tally in self._tallies.items() for seen in tally.broken]

    @property
    def outcomes(self) -> list[Outcome]:
        """Return one outcome for each rule."""
        tallied = [_outcome(rule, tally) for rule, tally in self._tallies.items()]
        return tallied + [other for rule, other in self._others.items() if rule not in self._tallies]


def measured(rule: str, value: float, bound: float, what: str) -> Outcome:
    """Return whether a measured number keeps its upper bound; NaN keeps none."""
    status: Status = "holds" if value <= bound else "broken"
    return Outcome(rule, status, f"{what}: {value:.2g} (at most {bound:.2g})", value, bound)


def broken(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of rules that do not hold."""
    return [outcome for outcome in outcomes if outcome.status == "broken"]


def cut(text: str) -> str:
    """Return text fit for one line of a report: without line breaks, surrogates or great length."""
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line[:MAX_EVIDENCE])
    return line if len(line) < MAX_EVIDENCE else f"{line[: MAX_EVIDENCE - 1]}…"


def _outcome(rule: str, tally: _Tally) -> Outcome:
    if not tally.broken:
        return Outcome(rule, "holds", f"{tally.num_cases} {tally.what}")
    shown = list(dict.fromkeys(tally.broken))[:MAX_SHOWN]
    counted = f"{len(tally.broken)} of {tally.num_cases} {tally.what}: "
    return Outcome(rule, "broken", counted + "; ".join(shown))
