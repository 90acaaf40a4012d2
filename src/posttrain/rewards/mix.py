"""One reward of several parts: weights say what each is worth, gates what must hold first.

And process rewards: what each turn of an episode is worth, from verdicts turn by turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from posttrain.errors import ConfigError, InputError
from posttrain.types import Reward


@dataclass(frozen=True, slots=True)
class Gate:
    """What a part must reach; under it the reward is `value` and nothing else is earned."""

    at_least: float = 1.0
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Mix:
    """Weights and gates by the name of a part; weights count relative to their sum.

    Raises ConfigError for weights that are negative or all 0, and for figures that are not finite.
    """

    weights: Mapping[str, float]
    gates: Mapping[str, Gate]

    def __post_init__(self) -> None:
        for name, weight in self.weights.items():
            if not (math.isfinite(weight) and weight >= 0):
                hint = "Weights are at least 0; for a penalty, weigh a part that is below 0."
                raise ConfigError(f"{weight} is no weight", key=f"weights.{name}", hint=hint)
        if not sum(self.weights.values()) > 0:
            raise ConfigError("no part has a weight", key="weights", hint="Raise one above 0.")
        for name, gate in self.gates.items():
            if not (math.isfinite(gate.at_least) and math.isfinite(gate.value)):
                raise ConfigError(f"{gate} is not finite", key=f"gates.{name}", hint="Give plain numbers.")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the parts that must be known."""
        return tuple(dict.fromkeys((*self.gates, *self.weights)))


def mix(parts: Mapping[str, float], how: Mix, flags: Sequence[str] = ()) -> Reward:
    """Return the weighted mean of parts, or the value of the first gate that does not hold.

    All parts stay visible. Raises InputError for a part that is missing or not finite.

    >>> how = Mix({"tests": 3, "style": 1}, {"tests": Gate(0.5)})
    >>> mix({"tests": 1.0, "style": 0.6}, how).value, mix({"tests": 0.4, "style": 1.0}, how).value
    (0.9, 0.0)
    """
    for name in how.names:
        if name not in parts:
            known = ", ".join(sorted(parts)) or "none"
            raise InputError(f"no part is called {name!r}. This attempt has: {known}.")
        if not math.isfinite(parts[name]):
            raise InputError(f"part {name!r} is {parts[name]}, which is not finite.")
    for name, gate in how.gates.items():
        if parts[name] < gate.at_least:
            return Reward(gate.value, dict(parts), tuple(flags))
    total = math.fsum(how.weights.values())
    value = math.fsum(weight * parts[name] for name, weight in how.weights.items()) / total
    return Reward(value, dict(parts), tuple(flags))


def progress(verdicts: Sequence[float], start: float = 0.0) -> tuple[float, ...]:
    """Return what each turn added, for `Reward.by_turn`, from how good the work was after each turn.

    They sum to the last verdict less `start`: going back and forth earns nothing. With `turn_gamma` the
    outcome is added to the last turn, so an outcome that is the last verdict counts twice; give
    `Reward.value` 0, or another figure, where that is not wanted.

    >>> progress([0.25, 0.0, 1.0])
    (0.25, -0.25, 1.0)
    """
    return tuple(after - before for before, after in pairwise((start, *verdicts)))
