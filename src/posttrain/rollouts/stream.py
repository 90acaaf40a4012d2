"""The stream of harvests that the loop consumes, one for each step, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from posttrain.errors import ConfigError
from posttrain.protocols import Draw
from posttrain.rollouts.collect import Harvest
from posttrain.types import Group


async def stream(
    draw: Callable[[int], Awaitable[list[Draw]]],
    collect: Callable[[Sequence[Draw]], Awaitable[Harvest]],
    keeps: Callable[[Group], bool],
    steps: range,
    groups: int,
    max_refills: int = 0,
    max_staleness: int = 0,
) -> AsyncIterator[tuple[int, Harvest]]:
    """Yield (step, harvest) for each step.

    Dynamic sampling (DAPO, arXiv:2503.14476, eq. 11): where groups carry no signal, up to
    `max_refills` further waves are drawn to replace them; all groups, kept or not, are handed on.
    """
    if max_staleness > 0:
        raise ConfigError(
            f"max_staleness = {max_staleness} is not available yet: sampling uses the newest weights",
            key="run.max_staleness",
            hint="Set it to 0.",
        )
    for step in steps:
        harvest = await collect(await draw(groups))
        for _ in range(max_refills):
            missing = groups - sum(keeps(group) for group in harvest.groups)
            if missing <= 0:
                break
            harvest += await collect(await draw(missing))
        yield step, harvest
