"""The fate of every attempt ever started, on two axes: how it was judged and what was done with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, final, get_args

from posttrain.errors import RunFailed
from posttrain.types import Group, Trajectory, Unjudged, Verdict

Outcome = Literal["judged", "policy_fault", "unjudged"]
"""judged: a reward; policy_fault: a reward, but the attempt was cut off; unjudged: infrastructure failed."""

Disposition = Literal[
    "trained", "filtered", "dropped", "quarantined", "skipped", "evaluated", "probed", "warmup"
]  # fmt: skip
"""What was done with an attempt.

trained · filtered: no signal in its group · dropped: unjudged, or too few judged in its group ·
quarantined: set aside for review by a flag of its reward · skipped: for another reason · evaluated: by a
held-out evaluation · probed: by the curriculum · warmup: before RL.
"""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)


def outcome_of(trajectory: Trajectory, verdict: Verdict) -> Outcome:
    """Return how an attempt ended: a limit that cut it off is the policy's fault, a broken judge is not."""
    if isinstance(verdict, Unjudged):
        return "unjudged"
    return "policy_fault" if trajectory.stop in ("length", "context", "deadline") else "judged"


@final
@dataclass(slots=True)
class Ledger:
    """Count attempts per domain: started, pending, and settled by outcome and disposition."""

    _started: Counter[str] = field(default_factory=Counter)
    _pending: Counter[str] = field(default_factory=Counter)
    _settled: dict[str, Counter[tuple[Outcome, Disposition]]] = field(default_factory=dict)

    def start(self, n: int, domain: str) -> None:
        """Enter `n` attempts that begin now; they are pending until settled."""
        assert n >= 0, n
        self._started[domain] += n
        self._pending[domain] += n

    def settle(self, outcome: Outcome, disposition: Disposition, domain: str, n: int = 1) -> None:
        """Enter the fate of `n` pending attempts."""
        assert outcome in OUTCOMES, outcome
        assert disposition in DISPOSITIONS, disposition
        assert n >= 0, n
        self._pending[domain] -= n
        self._settled.setdefault(domain, Counter())[outcome, disposition] += n

    def settle_group(self, group: Group, disposition: Disposition) -> None:
        """Enter the fate of all attempts of a group."""
        for trajectory, verdict in zip(group.trajectories, group.verdicts, strict=True):
            # An unjudged attempt carries no reward, so its trained group leaves it out.
            fate = disposition
            if isinstance(verdict, Unjudged):
                fate = "dropped" if disposition == "trained" else disposition
            elif verdict.is_quarantined and disposition in ("trained", "filtered", "dropped", "skipped"):
                fate = "quarantined"
            self.settle(outcome_of(trajectory, verdict), fate, group.task.domain)

    @property
    def started(self) -> int:
        """Count the attempts ever started."""
        return self._started.total()

    @property
    def pending(self) -> int:
        """Count the attempts whose fate is open."""
        return self._pending.total()

    def count(
        self,
        outcome: Outcome | None = None,
        disposition: Disposition | None = None,
        domain: str | None = None,
    ) -> int:
        """Count the settled attempts of an outcome, a disposition, a domain; None stands for any."""
        tables = self._settled.values() if domain is None else [self._settled.get(domain, Counter())]
        return sum(
            n
            for table in tables
            for (o, d), n in table.items()
            if outcome in (None, o) and disposition in (None, d)
        )

    def reconcile(self, pending: int | None = None) -> None:
        """Raise RunFailed unless started = settled + pending in every domain.

        `pending` is the caller's own count of attempts in flight, to be checked against the ledger's.
        """
        for domain in sorted({*self._started, *self._pending, *self._settled}):
            started, open_ = self._started[domain], self._pending[domain]
            settled = self.count(domain=domain)
            if open_ < 0 or started != settled + open_:
                raise RunFailed(
                    f"ledger: domain {domain!r} has {started} attempts started, {settled} settled and "
                    f"{open_} pending, which does not add up. This is a fault of posttrain: please report it."
                )
        if pending is not None and pending != self.pending:
            raise RunFailed(
                f"ledger: {self.pending} attempts are pending but {pending} are in flight. "
                "Attempts were lost or entered twice; please report this."
            )

    def line(self, step: int) -> dict[str, Any]:
        """Return the ledger after `step` as one line of ledger.jsonl; all counts are since the beginning."""
        domains = {domain: self._table(domain) for domain in sorted(self._started)}
        return {"step": step, "started": self.started, "pending": self.pending, "domains": domains}

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as plain JSON."""
        return {domain: self._table(domain) for domain in sorted({*self._started, *self._settled})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the counts of another ledger; attempts that were pending there stay pending."""
        self._started = Counter({domain: table["started"] for domain, table in state.items()})
        self._pending = Counter({domain: table["pending"] for domain, table in state.items()})
        self._settled = {domain: _counts(table["settled"]) for domain, table in state.items()}

    def _table(self, domain: str) -> dict[str, Any]:
        settled: dict[str, dict[str, int]] = {}
        for (outcome, disposition), n in sorted(self._settled.get(domain, Counter()).items()):
            settled.setdefault(outcome, {})[disposition] = n
        return {"started": self._started[domain], "pending": self._pending[domain], "settled": settled}


def _counts(settled: Mapping[Outcome, Mapping[Disposition, int]]) -> Counter[tuple[Outcome, Disposition]]:
    return Counter({(o, d): n for o, row in settled.items() for d, n in row.items()})
