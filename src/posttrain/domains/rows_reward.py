"""Reward functions as they are written for TRL and for verl, and ours by name, behind one signature.

Which kind a function is shows in its parameters: `completions` (TRL), `solution_str` (verl) or
`trajectory` (a verifier of this project's own).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, TypeVar

from posttrain.domains.rows_check import Need, value_at
from posttrain.errors import InputError
from posttrain.protocols import Sandbox
from posttrain.types import JSON, Reward, Trajectory

T = TypeVar("T")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a reward function can be told: the attempt, its row, and what verifiers get besides."""

    trajectory: Trajectory
    sandbox: Sandbox
    files: Mapping[str, bytes]

    @property
    def columns(self) -> Mapping[str, JSON]:
        """Return the row's cells, each call a copy, so that no function can change the task."""
        found: Mapping[str, JSON] = copy.deepcopy(self.trajectory.task.reference["columns"])
        return found

    @property
    def is_chat(self) -> bool:
        """Tell whether the row's prompt was a list of messages."""
        return bool(self.trajectory.task.reference["is_chat"])

    @property
    def answer(self) -> str:
        """Return the text of the policy's last turn."""
        return self.trajectory.answer


@dataclass(frozen=True, slots=True)
class Score:
    """What one function says: a value, or None where it does not apply; and what stands beside it."""

    value: float | None
    parts: Mapping[str, float]
    flags: tuple[str, ...] = ()
    by_turn: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Scorer:
    """A reward function ready to be asked.

    `needs` are columns that every row must fill; `asks` must exist, though single rows may leave them empty.
    """

    name: str
    weight: float
    score: Callable[[Attempt], Awaitable[Score]]
    needs: tuple[Need, ...] = ()
    asks: tuple[str, ...] = ()


class NoTrainerState:
    """Stands for TRL's `trainer_state`: it can be passed on, but has nothing to tell."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"trainer_state.{name}: a verdict depends on the attempt alone here, not on the training step, "
            "so that old attempts can be judged again. Take the schedule out of the reward function."
        )


async def combined(scorers: Sequence[Scorer], attempt: Attempt) -> Reward:
    """Return the weighted sum of what the functions give, each named in the parts; None is left out.

    Flags of all are kept; rewards by turn add up by weight, and must be of equally many turns.
    Raises InputError where no function applies: an attempt without a verdict is Unjudged, not worth 0.
    """
    scores = await asyncio.gather(*(scorer.score(attempt) for scorer in scorers))
    said = [(scorer, score) for scorer, score in zip(scorers, scores, strict=True) if score.value is not None]
    if not said:
        names = ", ".join(scorer.name for scorer in scorers)
        raise InputError(f"no reward function applies: {names} gave None. One of them must judge each row.")
    parts = {scorer.name: score.value or 0.0 for scorer, score in said}
    for scorer, score in zip(scorers, scores, strict=True):
        parts |= {f"{scorer.name}.{name}": value for name, value in score.parts.items()}
    flags = tuple(dict.fromkeys(flag for score in scores for flag in score.flags))
    turns = [[scorer.weight * value for value in score.by_turn] for scorer, score in said if score.by_turn]
    by_turn = tuple(map(math.fsum, zip(*turns, strict=True)))
    return Reward(math.fsum(s.weight * parts[s.name] for s, _ in said), parts, flags, by_turn)


def trl_scorer(name: str, function: Function, weight: float, *, threads: bool) -> Scorer:
    """Return a scorer for `function(completions, **columns)`, asked about one attempt at a time."""
    takes = _taken(function)

    async def score(attempt: Attempt) -> Score:
        logged: dict[str, float] = {}

        def log_metric(metric: str, value: float) -> None:
            logged[str(metric)] = number(value, f"{name}: log_metric({metric!r})")

        given: dict[str, Any] = {
            **{column: [cell] for column, cell in attempt.columns.items()},
            **_conversation(attempt),
            "completion_ids": [_sampled(attempt.trajectory)],
            "trainer_state": NoTrainerState(),
            "log_extra": lambda column, values: None,
            "log_metric": log_metric,
        }
        rewards = await _called(function, {k: v for k, v in given.items() if takes(k)}, threads)
        return Score(_only(rewards, name), logged)

    return Scorer(name, weight, score, asks=_asked(function, TRL_GIVES))


def verl_scorer(name: str, function: Function, weight: float, truth: str, *, threads: bool) -> Scorer:
    """Return a scorer for `function(data_source, solution_str, ground_truth, extra_info)`, float or dict.

    `truth` is the column, or the dotted path, of the ground truth.
    """
    takes = _taken(function)

    async def score(attempt: Attempt) -> Score:
        row = attempt.columns
        given = {
            "data_source": row.get("data_source"),
            "solution_str": attempt.answer,
            "ground_truth": value_at(row, truth),
            "extra_info": row.get("extra_info") or {},
        }
        found = await _called(function, {k: v for k, v in given.items() if takes(k)}, threads)
        if not isinstance(found, Mapping):
            return Score(number(found, name), {})
        if "score" not in found:
            raise InputError(f"reward function {name} returned {dict(found)!r:.200}, which has no 'score'.")
        return Score(number(found["score"], name), _figures(found))

    needs = (Need(truth),) if takes("ground_truth") else ()
    return Scorer(name, weight, score, needs, _asked(function, VERL_GIVES))


def verifier_scorer(name: str, function: Function, weight: float) -> Scorer:
    """Return a scorer for a verifier, `async function(trajectory, sandbox, files) -> Reward`."""

    async def score(attempt: Attempt) -> Score:
        work = functools.partial(function, attempt.trajectory, attempt.sandbox, attempt.files)
        found = await _called(work, {}, threads=False)
        if not isinstance(found, Reward):
            raise InputError(f"verifier {name} returned {type(found).__name__}, expected posttrain.Reward.")
        return Score(number(found.value, name), dict(found.parts), found.flags, found.by_turn)

    return Scorer(name, weight, score)


TRL_GIVES = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
VERL_GIVES = ("data_source", "solution_str", "ground_truth", "extra_info")


def number(value: object, name: str) -> float:
    """Return a finite float; raise InputError that names the function otherwise."""
    try:
        # float() would read a text, which no trainer takes for a reward.
        found = float("" if isinstance(value, str) else value)  # type: ignore[arg-type]  # numpy's and torch's scalars are welcome
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"reward function {name} returned {value!r:.200}, which is no number.") from error
    if not math.isfinite(found):
        hint = "Return None where the function does not apply."
        raise InputError(f"reward function {name} returned {found}, which is not finite. {hint}")
    return found


def parameters(function: Function) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters by name; those of classes with `__call__` too."""
    return inspect.signature(function).parameters


def _only(rewards: object, name: str) -> float | None:
    """Return the one reward of a list of one."""
    try:
        found = list(rewards)  # type: ignore[call-overload]  # lists, tuples, arrays, tensors
    except TypeError as error:
        wanted = "a list with one reward for each completion"
        raise InputError(f"reward function {name} returned {rewards!r:.200}, expected {wanted}.") from error
    if len(found) != 1:
        raise InputError(f"reward function {name} returned {len(found)} rewards for 1 completion.")
    return None if found[0] is None else number(found[0], name)


def _conversation(attempt: Attempt) -> dict[str, Any]:
    """Return prompts and completions in the form that the row's prompt has."""
    prompt = attempt.trajectory.task.prompt
    if not attempt.is_chat:
        return {"prompts": [prompt[0].content], "completions": [attempt.answer]}
    messages = [{"role": message.role, "content": message.content} for message in prompt]
    return {"prompts": [messages], "completions": [[{"role": "assistant", "content": attempt.answer}]]}


def _sampled(trajectory: Trajectory) -> list[int]:
    last = next((turn for turn in reversed(trajectory.turns) if turn.by_policy), None)
    return [] if last is None else list(last.tokens)


def _figures(found: Mapping[str, object]) -> dict[str, float]:
    """Return the figures that stand beside a score; texts are left to the function's own logs."""
    numbers = {str(k): v for k, v in found.items() if k != "score" and isinstance(v, int | float)}
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def _taken(function: Function) -> Callable[[str], bool]:
    """Tell which keyword arguments a function takes; what was bound to it beforehand stays."""
    known = parameters(function)
    bound = function.keywords if isinstance(function, functools.partial) else {}
    takes_all = any(each.kind is each.VAR_KEYWORD for each in known.values())
    return lambda name: name not in bound and (takes_all or name in known)


def _asked(function: Function, given: Sequence[str]) -> tuple[str, ...]:
    """Return what a function cannot do without, beside what it is always given."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = parameters(function)
    required = (name for name, p in known.items() if p.default is p.empty and p.kind not in variadic)
    return tuple(name for name in required if name not in given)


async def _called(function: Function, keywords: Mapping[str, Any], threads: bool) -> Any:
    work = functools.partial(function, **keywords)
    plain = not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object may have an asynchronous one)
    )
    try:
        found = await _in_thread(work) if threads and plain else work()
        return await found if inspect.isawaitable(found) else found
    except (SystemExit, KeyboardInterrupt) as error:
        # In a task of its own it would stop the event loop, and with it all other verdicts.
        raise InputError(f"a reward function tried to end the program: {error!r}.") from error


async def _in_thread(work: Callable[[], T]) -> T:
    """Return what `work()` returns, from a thread of its own, which no one waits for at exit."""
    future: Future[T] = Future()

    def settle() -> None:
        # A missed deadline has cancelled the future.
        with contextlib.suppress(InvalidStateError):
            try:
                future.set_result(work())
            except BaseException as error:  # a SystemExit too is the function's answer
                future.set_exception(error)

    threading.Thread(target=settle, daemon=True).start()
    return await asyncio.wrap_future(future)
