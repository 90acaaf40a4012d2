"""Another domain's tasks, paid by several parts: weights and gates over its own and over code quality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posttrain.config import construct
from posttrain.config.wording import Place
from posttrain.domains.problem import Problem
from posttrain.domains.rows import NOWHERE
from posttrain.errors import RunFailed
from posttrain.protocols import Sandbox
from posttrain.rewards.code import extract_code
from posttrain.rewards.mix import Gate, Mix, mix
from posttrain.rewards.style import code_lines, style_of
from posttrain.types import Domain, Reward, Trajectory

QUALITY = ("style", "length", "comments")
"""Parts that are found in the text of the answer's code, for any domain of Python code."""


def mixed(
    domain: str | Mapping[str, Any],
    *,
    weights: Mapping[str, float],
    gates: Mapping[str, float | Gate] = {},
    name: str = "",
    success: float | None = None,
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain with the tasks of another and a reward that is mixed from parts.

    `domain` is a table with `use`, or a name. Parts are those that its verifier gives, `reward` (its value),
    and `style`, `length`, `comments` of the answer's code. A gate is the least that a part must reach, or a
    table with `at_least` and the `value` given below it. Raises ConfigError.
    """
    from posttrain.domains import DOMAINS

    found = construct(
        domain, DOMAINS, source=place.source, key=f"{place.key}.domain".strip("."), expected=Domain
    )
    assert isinstance(found, Domain)
    doors = {part: gate if isinstance(gate, Gate) else Gate(gate) for part, gate in gates.items()}
    return over(found, Mix(weights, doors), name=name, success=success)


def over(domain: Domain, how: Mix, *, name: str = "", success: float | None = None) -> Domain:
    """Return a domain whose reward is mixed from the parts of its verifier's; flags and turns stay."""

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        own = await domain.verify(trajectory, sandbox, files)
        parts = {**own.parts, "reward": own.value, **await _quality(trajectory, how.names)}
        return replace(mix(parts, how, own.flags), by_turn=own.by_turn)

    least = domain.success if success is None else success
    mixed_domain = replace(domain, verify=verify, success=least)
    if not name:
        return mixed_domain

    def task(split: Any, level: int, index: int) -> Any:
        return replace(domain.task(split, level, index), domain=name)

    return replace(mixed_domain, name=name, task=task)


async def _quality(trajectory: Trajectory, names: tuple[str, ...]) -> dict[str, float]:
    """Return the parts of code quality that are asked for."""
    if not any(name in QUALITY for name in names):
        return {}
    style = await style_of(extract_code(trajectory.answer))
    parts = {"style": style.clean, "comments": style.commented}
    if "length" in names:
        solution = Problem.of(trajectory.task).solution
        if not code_lines(solution):
            raise RunFailed(f"task {trajectory.task.id!r} has no solution to compare the length with")
        parts["length"] = style.brevity(code_lines(solution))
    return {name: value for name, value in parts.items() if name in names}
