"""How much faster a program is than its reference: CPU time by the kernel's account, repeated and compared.

Each run is a fresh process, so the time counts that loading takes: a table made beforehand is not free. The
candidate cannot write these numbers, since the sandbox measures from outside.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from posttrain.errors import RunFailed
from posttrain.protocols import Limits, Program, RunResult, Sandbox

FEWEST, MOST = 3, 7
"""Rounds of one reference and one candidate run each; more than the fewest only while undecided."""
_T95 = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447}  # Student's t, two-sided 95 %, n − 1 degrees


@dataclass(frozen=True, slots=True)
class Speed:
    """Reference time over candidate time (above 1: faster) with its 95 % interval.

    `output`: what the candidate printed in its first run, to be compared by the caller, who alone knows
    what is right. `failed`: the status of a run of the candidate that did not end well, or "".
    """

    ratio: float
    low: float
    high: float
    num_rounds: int
    output: bytes = b""
    failed: str = ""

    @property
    def gain(self) -> float:
        """Return by what factor it is faster for certain: 1.0 where the interval includes 1."""
        return max(1.0, self.low)

    def score(self, cap: float = 8.0) -> float:
        """Return log(gain) / log(cap), from 0 for no certain gain to 1 for `cap` times as fast."""
        return min(1.0, math.log(self.gain) / math.log(cap))


async def speed_of(
    candidate: Program, reference: Program, sandbox: Sandbox, limits: Limits = Limits()
) -> Speed:
    """Return how much faster a candidate runs than a reference, in interleaved rounds.

    A candidate that fails ends the measurement. Raises RunFailed where the reference fails or the
    sandbox has no verdict: neither is the candidate's doing.
    """
    pairs: list[tuple[float, float]] = []
    output = b""
    while len(pairs) < MOST:
        # Turn about: a machine that becomes slower or faster meanwhile favours neither.
        order: tuple[Literal["candidate", "reference"], ...] = ("reference", "candidate")
        seconds: dict[str, float] = {}
        for who in order if len(pairs) % 2 == 0 else reversed(order):
            result = await sandbox.run(candidate if who == "candidate" else reference, limits)
            if problem := _problem(result, who):
                return Speed(0.0, 0.0, 0.0, len(pairs), failed=problem)
            seconds[who] = result.cpu_seconds
            if who == "candidate" and not pairs:
                output = result.stdout
        pairs.append((seconds["reference"], seconds["candidate"]))
        if len(pairs) >= FEWEST and _is_decided(speed := compared(pairs)):
            return Speed(speed.ratio, speed.low, speed.high, speed.num_rounds, output)
    speed = compared(pairs)
    return Speed(speed.ratio, speed.low, speed.high, speed.num_rounds, output)


def compared(pairs: Sequence[tuple[float, float]]) -> Speed:
    """Return the geometric mean of reference/candidate with Student's 95 % interval on its logarithm.

    `pairs` are 3 to 7 (reference, candidate) times in seconds.
    """
    floor = 1e-4  # below what the kernel's account resolves
    logs = [math.log(max(ours, floor) / max(theirs, floor)) for ours, theirs in pairs]
    middle = statistics.fmean(logs)
    half = _T95[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Speed(math.exp(middle), math.exp(middle - half), math.exp(middle + half), len(logs))


def _is_decided(speed: Speed) -> bool:
    """Tell whether more rounds would change little: the interval is narrow beside the ratio itself."""
    return speed.high / speed.low < 1.5 and not speed.low < 1.0 < speed.high


def _problem(result: RunResult, who: str) -> str:
    if result.status == "INFRA":
        raise RunFailed("the sandbox has no verdict on how fast a program is")
    if result.status == "OK":
        return ""
    if who == "reference":
        raise RunFailed(f"the reference that speed is measured by ended with {result.status}")
    return result.status
