"""A fixed mixture: domains take turns in proportion to their weights, as evenly as whole numbers allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from posttrain.protocols import Draw
from posttrain.types import Domain, Group, Split, Unjudged

MAX_UNJUDGED_SHARE = 0.05
MIN_ATTEMPTS_TO_PAUSE = 20
PAUSE_DRAWS = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One domain in the mixture: at which level, and with what share (relative to the others')."""

    domain: Domain
    level: int = 0
    weight: float = 1.0


@dataclass(slots=True)
class _Progress:
    index: int
    credit: float = 0.0
    attempts: int = 0
    unjudged: int = 0
    paused: int = 0


@dataclass(slots=True)
class Mixture:
    """Draw tasks by smooth weighted round-robin; a pure function of its small state.

    A domain with more than 5 % unjudged attempts is paused for a while and named in `alarms`.
    `start` is the first task index, so that warm-up and RL can work on different tasks.
    """

    entries: tuple[Entry, ...]
    split: Split = "train"
    start: int = 0
    alarms: list[str] = field(default_factory=list)
    _sequence: int = 0
    _progress: dict[str, _Progress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._progress = {entry.domain.name: _Progress(self.start) for entry in self.entries}

    def draw(self, count: int) -> list[Draw]:
        """Return the next `count` draws, in sequence order."""
        return [self._next() for _ in range(count)]

    def observe(self, groups: Sequence[Group]) -> None:
        """Count verdicts by domain and pause a domain whose verifier keeps failing."""
        for group in groups:
            progress = self._progress[group.task.domain]
            progress.attempts += len(group.verdicts)
            progress.unjudged += sum(isinstance(verdict, Unjudged) for verdict in group.verdicts)
        for name, progress in self._progress.items():
            too_many = progress.unjudged > MAX_UNJUDGED_SHARE * progress.attempts
            if progress.attempts >= MIN_ATTEMPTS_TO_PAUSE and too_many:
                self.alarms.append(
                    f"{name}: {progress.unjudged} of {progress.attempts} attempts got no verdict; "
                    f"paused for {PAUSE_DRAWS} draws. Look at its Unjudged records in groups/."
                )
                progress.paused, progress.attempts, progress.unjudged = PAUSE_DRAWS, 0, 0

    def weights(self, groups: Sequence[Group]) -> list[float]:
        """Return 1.0 for each group: a fixed mixture weighs by drawing alone."""
        return [1.0] * len(groups)

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next draws depend on, as plain JSON."""
        rows = {
            name: [p.index, p.credit, p.attempts, p.unjudged, p.paused] for name, p in self._progress.items()
        }
        return {"sequence": self._sequence, "progress": rows}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; domains that are new since then start afresh."""
        self._sequence = int(state["sequence"])
        for name, row in state["progress"].items():
            if name in self._progress:
                self._progress[name] = _Progress(*row)

    def _next(self) -> Draw:
        open_entries = [e for e in self.entries if self._progress[e.domain.name].paused <= 0] or list(
            self.entries
        )
        total = sum(entry.weight for entry in open_entries)
        for entry in open_entries:
            self._progress[entry.domain.name].credit += entry.weight / total
        for progress in self._progress.values():
            progress.paused = max(0, progress.paused - 1)
        chosen = max(open_entries, key=lambda entry: self._progress[entry.domain.name].credit)
        progress = self._progress[chosen.domain.name]
        progress.credit -= 1.0
        task = chosen.domain.task(self.split, chosen.level, progress.index)
        progress.index += 1
        self._sequence += 1
        return Draw(self._sequence - 1, chosen.domain, task)
