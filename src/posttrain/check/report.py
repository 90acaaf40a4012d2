"""What `posttrain check` gives back: subjects, their rules, and what became of each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from posttrain.contracts.outcome import Outcome, broken
from posttrain.types import JSON

WORDS = {"holds": "ok", "broken": "BROKEN", "shown": "--", "skipped": "skipped"}


@dataclass(frozen=True, slots=True)
class Section:
    """The outcomes of one suite on one subject; `kind` is what the subject was taken for."""

    kind: str
    subject: str
    outcomes: tuple[Outcome, ...]

    def text(self) -> str:
        """Return a heading and one line for each rule."""
        widths = max(len(outcome.rule) for outcome in self.outcomes)
        lines = [f"  {WORDS[o.status]:<7}  {o.rule:<{widths}}  {o.evidence}" for o in self.outcomes]
        return "\n".join([f"{self.kind} {self.subject}", *lines])


@dataclass(frozen=True, slots=True)
class Report:
    """All sections of one check."""

    target: str
    sections: tuple[Section, ...]

    @property
    def holds(self) -> bool:
        """Tell whether no rule is broken."""
        return not any(broken(section.outcomes) for section in self.sections)

    def text(self) -> str:
        """Return the report as a user reads it, the count of rules last."""
        counts = Counter(outcome.status for section in self.sections for outcome in section.outcomes)
        verdict = f"{counts['broken']} broken" if counts["broken"] else "all hold"
        last = f"{counts['holds'] + counts['broken']} rules checked: {verdict}"
        skipped = f"; {counts['skipped']} skipped" if counts["skipped"] else ""
        return "\n\n".join([*(section.text() for section in self.sections), last + skipped])

    def json(self) -> str:
        """Return the report as one JSON object."""
        sections: list[JSON] = [
            {"kind": s.kind, "subject": s.subject, "outcomes": [o.as_json() for o in s.outcomes]}
            for s in self.sections
        ]
        return json.dumps({"target": self.target, "holds": self.holds, "sections": sections}, indent=2)
