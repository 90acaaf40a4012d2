"""Make this function faster: correctness is the gate, the certain speed-up what is paid for.

Tasks are made on the spot, without end, from families of functions that are slow for a known reason.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Gt

from posttrain.config import meant
from posttrain.domains.code_judge import judge_cases
from posttrain.domains.optimise_families import FAMILIES, Family
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, RunFailed
from posttrain.protocols import Case, Limits, Program, Sandbox
from posttrain.rewards.code import FLAGS, MEANINGS, extract_code
from posttrain.rewards.efficiency import speed_of
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

INSTRUCTION = (
    "Write a faster function of the same name that returns equal results for all such arguments. "
    "Answer with one Python code block."
)
LIMITS = Limits(cpu_seconds=10.0, wall_seconds=60.0)
_NUM_DRAWS = 64
_NAMES = ("f", "solve", "compute", "process", "work", "result_of", "answer", "evaluate")
_CALL = """

__import__('sys').stdout.write(
    __import__('json').dumps({name}(*__import__('json').load(__import__('sys').stdin)))
)
"""


def optimise(
    *,
    name: str = "optimise",
    families: tuple[str, ...] = (),
    instruction: str = INSTRUCTION,
    cap: Annotated[float, Gt(1.0)] = 8.0,
    slow_value: float = 0.1,
    success: float = 0.5,
) -> Domain:
    """Return a domain of slow functions to be made faster.

    A wrong function earns 0. A right one earns `slow_value`, rising to 1 with the logarithm of the speed-up
    that is certain (95 %) at `cap` times as fast. `families` restricts what is asked. Raises ConfigError.
    """
    chosen = _chosen(families)

    def task(split: Split, level: int, index: int) -> Task:
        return _task(name, split, index, chosen, instruction)

    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return await judged(trajectory.answer, trajectory.task, sandbox, cap=cap, slow_value=slow_value)

    return Domain(name, lambda split, level: None, task, verify, success=success, deterministic=False)


async def judged(
    text: str, task: Task, sandbox: Sandbox, *, cap: float = 8.0, slow_value: float = 0.1
) -> Reward:
    """Return what an answer earns.

    Parts: `hidden` and `edges` (passed shares of hidden cases, and of those that are edge cases), `scaled`
    (0 or 1: the measured run is right too), `speed` (log of the certain speed-up, 0 to 1), `ratio`.
    Raises RunFailed where the sandbox has no verdict.
    """
    problem, scaled = Problem.of(task), task.reference["scaled"]
    source, num_edges = extract_code(text), int(task.reference["num_edges"])
    results = await judge_cases(problem, source, problem.hidden, sandbox, LIMITS, patience=1)
    if any(MEANINGS[result.status] == "none" for result in results):
        raise RunFailed("the sandbox has no verdict on a test")
    right = [result.status == "OK" for result in results]
    flags = tuple(flag for status, flag in FLAGS.items() if any(r.status == status for r in results))
    parts = {
        "hidden": sum(right) / len(right),
        "edges": sum(right[:num_edges]) / num_edges,
        "scaled": 0.0,
        "speed": 0.0,
        "ratio": 0.0,
    }
    if not all(right):
        return Reward(0.0, parts, flags)
    arguments = json.dumps(scaled["arguments"]).encode()
    slow = _called(str(task.reference["slow"]), str(problem.function), arguments)
    speed = await speed_of(_called(source, str(problem.function), arguments), slow, sandbox, LIMITS)
    if speed.failed or not _equals(speed.output, scaled["expected"]):
        return Reward(0.0, parts, flags)
    parts |= {"scaled": 1.0, "speed": speed.score(cap), "ratio": speed.ratio}
    return Reward(slow_value + (1.0 - slow_value) * parts["speed"], parts, flags)


def _called(source: str, function: str, arguments: bytes) -> Program:
    return Program("python", source + _CALL.format(name=function), stdin=arguments)


def _equals(output: bytes, expected: object) -> bool:
    """Tell whether the output is the expected JSON, types included: 1 is neither true nor 1.0."""
    return output.decode("utf-8", "replace") == json.dumps(expected)


def _chosen(families: tuple[str, ...]) -> tuple[Family, ...]:
    known = {family.name: family for family in FAMILIES}
    for name in families:
        if name not in known:
            raise ConfigError(f"there is no family {name!r}", key="families", hint=meant(name, known))
    return tuple(known[name] for name in families) or FAMILIES


def _task(name: str, split: Split, index: int, families: tuple[Family, ...], instruction: str) -> Task:
    family, dice = families[index % len(families)], _dice(split, index)
    for _ in range(_NUM_DRAWS):
        function, number = dice.choice(_NAMES), dice.randint(1, 60)
        if _split_of(family.name, number) == split:
            break
    problem = _problem(family, function, number, dice)
    slow = _written(family.slow, function, number)
    arguments = _plain(family.inputs(dice, family.scaled))
    reference = {
        **problem.reference(),
        "slow": slow,
        "num_edges": len(family.edges),
        "scaled": {"arguments": arguments, "expected": _plain(_load(problem)(*_plain(arguments)))},
    }
    question = f"This function is correct, but slow:\n\n```python\n{slow}```\n\n{instruction}"
    return Task(f"{name}/{split}/{index}", name, 0, (Message("user", question.strip()),), reference)


def _problem(family: Family, function: str, number: int, dice: random.Random) -> Problem:
    fast = _written(family.fast, function, number)
    made = Problem(family.name, f"Make `{function}` faster.", function, (), (), solution=fast)
    drawn = [family.inputs(dice, size) for size in (3, 5, 8, 13, 21)]
    call = _load(made)
    cases = [Case(call(*_plain(a)), function, tuple(_plain(a))) for a in (*family.edges, *drawn)]
    return Problem(family.name, made.statement, function, (), tuple(cases), solution=fast)


def _written(source: str, function: str, number: int) -> str:
    text = source.format(k=number)
    return text.replace("def f(", f"def {function}(").replace(" f(n - ", f" {function}(n - ")


def _load(problem: Problem) -> Any:
    """Return our own fast function, which stands in this package: nothing here comes from a policy."""
    names: dict[str, Any] = {}
    exec(problem.solution, names)
    return names[str(problem.function)]


def _plain(value: Any) -> Any:
    """Return a value as JSON reads it, each call a copy, so that no function changes another's input."""
    return json.loads(json.dumps(value))


def _dice(*parts: object) -> random.Random:
    return random.Random(hashlib.sha256(repr(("optimise", *parts)).encode()).digest())


def _split_of(family: str, number: int) -> Split:
    digest = hashlib.sha256(f"optimise/{family}/{number}".encode()).digest()
    return "eval" if digest[0] & 1 else "train"
