"""The learning rate's course: warm-up, then constant, linear or cosine; a pure function of the step."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["constant", "linear", "cosine"]


def learning_rate_factor(
    step: int, total_steps: int, *, warmup_steps: int = 0, schedule: Schedule = "constant", final: float = 0.0
) -> float:
    """Return the factor of the learning rate at `step`, counted from 0.

    Warm-up rises linearly and reaches 1 on step `warmup_steps` - 1 (no step trains at 0); then the
    factor falls from 1 to `final`, reached on the last step, and stays there.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if schedule == "constant":
        return 1.0
    span = max(1, total_steps - 1 - warmup_steps)
    done = min(1.0, (step - warmup_steps) / span)
    shape = 1.0 - done if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return final + (1.0 - final) * shape
