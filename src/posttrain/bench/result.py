"""What every measurement prints: ours beside a peer's, measured in the same run."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

Setting = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement: `ratio` is how many times better ours is than the peer's, above 1 in our favour.

    `peers` holds every peer's value in `unit`, or the reason why it is absent; `peer` is the one that
    `ratio` compares with, None if it is absent. `spread` holds the lowest and highest over repetitions.
    """

    ours: float
    peer: float | None
    ratio: float | None
    unit: str
    settings: Mapping[str, Setting]
    peers: Mapping[str, float | str]
    spread: Mapping[str, tuple[float, float]]

    def json(self) -> str:
        """Return the result as one JSON object with exactly the fields as keys."""
        return json.dumps(asdict(self), indent=2)

    def text(self) -> str:
        """Return the result as a few lines to read."""
        lines = [f"ours   {self.ours:.4g} {self.unit}  {_range(self.spread.get('ours'))}"]
        for name, value in self.peers.items():
            lines.append(f"{name}: {value if isinstance(value, str) else f'{value:.4g} {self.unit}'}")
        if self.ratio is not None:
            lines.append(
                f"ratio  {self.ratio:.2f}  {_range(self.spread.get('ratio'))}  (above 1: ours is better)"
            )
        lines.append("with " + ", ".join(f"{name} {value}" for name, value in self.settings.items()))
        return "\n".join(lines)


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"[{ends[0]:.4g} to {ends[1]:.4g}]"


def compare(
    ours: Sequence[float],
    peer: Sequence[float],
    *,
    unit: str,
    settings: Mapping[str, Setting],
    peers: Mapping[str, float | str],
    bigger_is_better: bool = True,
) -> Result:
    """Return medians and ranges of interleaved repetitions; an empty `peer` is an absent one.

    The ratio is the median of the repetitions' own ratios, so a slow moment of the machine hits both.
    """
    spread = {"ours": (min(ours), max(ours))}
    if not peer:
        return Result(statistics.median(ours), None, None, unit, settings, peers, spread)
    pairs = zip(ours, peer, strict=True)
    ratios = [a / b if bigger_is_better else b / a for a, b in pairs]
    spread |= {"peer": (min(peer), max(peer)), "ratio": (min(ratios), max(ratios))}
    middle = statistics.median
    return Result(middle(ours), middle(peer), middle(ratios), unit, settings, peers, spread)
