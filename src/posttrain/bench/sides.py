"""What `bench loop` found: each side's steps, how they compare, and the table and JSON object that say it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from posttrain.bench.agreement import Agreement
from posttrain.bench.overlay import ABSENT
from posttrain.bench.result import Result, Setting, compare
from posttrain.bench.steps import Facts, Step, StepSettings

DEFAULTS = "TRL, its defaults"
GIB = 2**30
Part = Literal["seconds", "sampling_seconds", "training_seconds", "cpu_seconds"]


@dataclass(frozen=True, slots=True)
class Side:
    """A process's facts and its measured steps, warm-ups left out."""

    name: str
    facts: Facts
    steps: tuple[Step, ...]

    @property
    def peak_bytes(self) -> int:
        return max(step.peak_bytes for step in self.steps)

    def median(self, part: Part) -> float:
        """Return the median over steps of one part of a step's time."""
        return statistics.median([float(getattr(step, part)) for step in self.steps])


@dataclass(frozen=True, slots=True)
class Pair:
    """A peer and our own steps taken in turn with it."""

    ours: Side
    peer: Side

    @property
    def ratio(self) -> float:
        """Return how many times faster ours is: the median over turns."""
        turns = zip(self.ours.steps, self.peer.steps, strict=True)
        return statistics.median(theirs.seconds / ours.seconds for ours, theirs in turns)


@dataclass(frozen=True, slots=True)
class Measured:
    """Ours alone, or beside each peer; the first pair is the peer's defaults."""

    settings: StepSettings
    ours: Side
    pairs: tuple[Pair, ...]
    agreements: tuple[Agreement, ...] = ()

    @property
    def fastest(self) -> Pair:
        return min(self.pairs, key=lambda pair: pair.ratio)

    def result(self) -> Result:
        """Return the comparison with the peer's defaults, everything else beside it."""
        peers: dict[str, float | str] = {pair.peer.name: pair.peer.median("seconds") for pair in self.pairs}
        first = self.pairs[0].peer.steps if self.pairs else ()
        beside = self.pairs[0].ours if self.pairs else self.ours
        return compare(
            [step.seconds for step in beside.steps],
            [step.seconds for step in first],
            unit="s/step",
            settings={**_described(self.settings, self.ours), **self._ratios()},
            peers=peers or {DEFAULTS: ABSENT},
            bigger_is_better=False,
        )

    def _ratios(self) -> dict[str, Setting]:
        ours = self.ours
        found: dict[str, Setting] = {
            "sampling_seconds": ours.median("sampling_seconds"),
            "training_seconds": ours.median("training_seconds"),
            "cpu_seconds": ours.median("cpu_seconds"),
            "peak_bytes": ours.peak_bytes,
        }
        for pair in self.pairs:
            found[f"peak_bytes of {pair.peer.name}"] = pair.peer.peak_bytes
        if self.pairs:
            found["ratio_to_fastest"] = self.fastest.ratio
            found["fastest_peer"] = self.fastest.peer.name
            found["memory_ratio"] = self.pairs[0].peer.peak_bytes / ours.peak_bytes
            least = min(pair.peer.peak_bytes for pair in self.pairs)
            found["memory_ratio_to_smallest"] = least / ours.peak_bytes
        for agreement in self.agreements:
            found[f"loss_gap of {agreement.loss}"] = agreement.loss_gap
            found[f"gradient_gap of {agreement.loss}"] = agreement.gradient_gap
        return found

    def text(self) -> str:
        """Return the comparison as a table."""
        head = (
            f"{'':32} {'s/step':>8} {'sampling':>9} {'training':>9} {'CPU s':>8} {'peak GiB':>9} {'ratio':>7}"
        )
        rows = [_row(self.ours, "")]
        rows += [_row(pair.peer, f"{pair.ratio:.2f}x") for pair in self.pairs]
        if not self.pairs:
            rows.append(f"{DEFAULTS}: {ABSENT}")
        rows += [agreement.text() for agreement in self.agreements]
        described = ", ".join(f"{n} {v}" for n, v in _described(self.settings, self.ours).items())
        return "\n".join([head, *rows, f"with {described}"])


def _row(side: Side, ratio: str) -> str:
    parts: tuple[Part, ...] = ("seconds", "sampling_seconds", "training_seconds", "cpu_seconds")
    seconds, sampling, training, cpu = (side.median(part) for part in parts)
    peak = side.peak_bytes / GIB
    return f"{side.name:32} {seconds:8.3f} {sampling:9.3f} {training:9.3f} {cpu:8.2f} {peak:9.2f} {ratio:>7}"


def _described(settings: StepSettings, ours: Side) -> dict[str, Setting]:
    return {
        "model": settings.model,
        "dtype": settings.dtype,
        "device": settings.device,
        "threads": settings.threads,
        "torch": ours.facts.torch,
        "prompts": len(settings.prompts),
        "attempts": settings.attempts,
        "tokens": settings.tokens,
        "lora_rank": settings.rank,
        "token_budget": ours.facts.micro_batch,
        "repetitions": len(ours.steps),
    }
