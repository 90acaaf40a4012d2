"""Learning curves beside TRL's on the tiny model: same prompts, reward, sample budget and settings.

The two draw different random numbers, so they are compared over seeds: reward at the end, and the area
under the curve (the mean reward over all steps).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from transformers import AutoTokenizer

from posttrain.bench.child import Child, Program
from posttrain.bench.curves import CurveSettings
from posttrain.bench.overlay import ABSENT, Overlay, peer_script
from posttrain.bench.result import Result, Setting, compare
from posttrain.measures.intervals import Interval, interval_of_means
from posttrain.models import source

LAST = 5
"""Steps at the end whose mean is the final reward."""
WANTED = "aeiou"
PEER = "TRL"


@dataclass(frozen=True, slots=True)
class Study:
    """The sample budget of one run (steps × groups × attempts × tokens), and how many seeds run it."""

    seeds: int = 5
    steps: int = 40
    groups: int = 4
    attempts: int = 8
    tokens: int = 4
    learning_rate: float = 3e-3


QUICK = Study(seeds=2, steps=3, groups=2, attempts=2)
"""For tests: the same study in seconds, meaningless as a figure."""


@dataclass(frozen=True, slots=True)
class _Ready:
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean reward at every step of one run."""

    rewards: tuple[float, ...]
    peak_bytes: int

    @property
    def final(self) -> float:
        return statistics.fmean(self.rewards[-LAST:])

    @property
    def area(self) -> float:
        return statistics.fmean(self.rewards)


@dataclass(frozen=True, slots=True)
class Curves:
    """One curve for each seed on either side; `peer` is empty where TRL is absent."""

    study: Study
    ours: tuple[Curve, ...]
    peer: tuple[Curve, ...]

    def difference(self, measure: Callable[[Curve], float]) -> Interval:
        """Return ours minus the peer's over seeds, with a 95 % t-interval."""
        pairs = zip(self.ours, self.peer, strict=True)
        return interval_of_means([measure(ours) - measure(peer) for ours, peer in pairs])

    @property
    def no_worse(self) -> bool:
        """Tell whether neither interval lies wholly below 0."""
        return self.difference(_final).high >= 0 and self.difference(_area).high >= 0

    def result(self) -> Result:
        """Return the comparison of areas under the curve, everything else beside it."""
        settings: dict[str, Setting] = {**asdict(self.study), "model": "tiny", "last_steps": LAST}
        settings["final"] = statistics.fmean(map(_final, self.ours))
        if self.peer:
            settings["peer_final"] = statistics.fmean(map(_final, self.peer))
            settings["no_worse"] = self.no_worse
            for name, measure in (("final", _final), ("area", _area)):
                interval = self.difference(measure)
                settings |= {f"{name}_difference": interval.mean, f"{name}_low": interval.low}
                settings[f"{name}_high"] = interval.high
        theirs = list(map(_area, self.peer))
        return compare(
            list(map(_area, self.ours)),
            theirs,
            unit="mean reward over all steps",
            settings=settings,
            peers={PEER: statistics.fmean(theirs) if theirs else ABSENT},
        )

    def text(self) -> str:
        """Return both mean curves, what they come to, and the differences."""
        lines = [f"mean reward over {self.study.seeds} seeds, first to last step", _drawn("ours", self.ours)]
        if not self.peer:
            return "\n".join([*lines, f"{PEER}: {ABSENT}"])
        lines.append(_drawn(PEER, self.peer))
        for name, measure in ((f"reward of the last {LAST} steps", _final), ("area under the curve", _area)):
            ours, theirs = (statistics.fmean(map(measure, side)) for side in (self.ours, self.peer))
            gap = self.difference(measure)
            lines.append(
                f"{name:27} ours {ours:.3f}  {PEER} {theirs:.3f}  "
                f"difference {gap.mean:+.3f} [{gap.low:+.3f} to {gap.high:+.3f}]"
            )
        lines.append("ours is no worse" if self.no_worse else "ours is worse")
        return "\n".join(lines)


def run(study: Study, trl: Overlay | None, threads: int = 1) -> Curves:
    """Train `study.seeds` times on each side, in turn, and return the curves."""
    settings = _settings(study, threads)
    own = Program("ours", "posttrain.bench.curves", asdict(settings), threads)
    if trl is None:
        with Child(own, _Ready, Curve) as child:
            return Curves(study, tuple(child.step() for _ in range(study.seeds)), ())
    other = Program(PEER, str(peer_script("trl_curve.py")), asdict(settings), threads, (trl.folder,))
    with Child(own, _Ready, Curve) as ours, Child(other, _Ready, Curve) as peer:
        pairs = [(ours.step(), peer.step()) for _ in range(study.seeds)]
    return Curves(study, tuple(mine for mine, _ in pairs), tuple(theirs for _, theirs in pairs))


def _settings(study: Study, threads: int) -> CurveSettings:
    folder = source.resolve("tiny")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return CurveSettings(
        model=str(folder),
        threads=threads,
        prompts=tuple(f"write {number}" for number in range(study.groups * study.steps)),
        wanted=tuple(tokenizer.convert_tokens_to_ids(list(WANTED))),
        places=study.tokens,
        steps=study.steps,
        groups=study.groups,
        attempts=study.attempts,
        tokens=study.tokens,
        rank=8,
        alpha=16,
        learning_rate=study.learning_rate,
        seed=0,
    )


def _final(curve: Curve) -> float:
    return curve.final


def _area(curve: Curve) -> float:
    return curve.area


def _drawn(name: str, curves: Sequence[Curve], columns: int = 10) -> str:
    """Return the mean curve in at most `columns` numbers, each the mean of as many steps."""
    means = [statistics.fmean(rewards) for rewards in zip(*(c.rewards for c in curves), strict=True)]
    size = -(-len(means) // columns)
    parts = [statistics.fmean(means[start : start + size]) for start in range(0, len(means), size)]
    return f"{name:5}" + "".join(f" {part:.2f}" for part in parts)
