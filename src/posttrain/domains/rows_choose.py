"""From the `reward` of a configuration to reward functions: names of ours, or a user's own, with weights."""

from __future__ import annotations

import functools
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from posttrain.config import find, meant
from posttrain.config.wording import Place
from posttrain.domains.rows_check import Need, value_at
from posttrain.domains.rows_reward import (
    TRL_GIVES,
    Attempt,
    Score,
    Scorer,
    parameters,
    trl_scorer,
    verifier_scorer,
    verl_scorer,
)
from posttrain.errors import ConfigError
from posttrain.rewards import match
from posttrain.rewards.fields import agreement
from posttrain.rewards.schema import Reading, read_json
from posttrain.types import JSON

Spec = str | Mapping[str, Any] | Callable[..., Any]
"""A name such as "exact:answer" or "my_rewards:accuracy", a table with `use`, or the function itself."""
Compare = Callable[[str, JSON], float]


def exact(answer: str, gold: JSON) -> float:
    """Return 1.0 if the final answer equals the gold one, else 0.0."""
    return match.exact(match.extract_answer(answer), gold if isinstance(gold, str) else json.dumps(gold))


def numeric(answer: str, gold: JSON) -> float:
    """Return 1.0 if the final answer is the gold number, by value, else 0.0."""
    found = match.number(match.normalise(match.extract_answer(answer)))
    return float(found is not None and found == _number(gold))


def fields(answer: str, gold: JSON) -> float:
    """Return the share of fields in which a JSON answer agrees with the gold record (or its JSON text)."""
    given = read_json(answer, fence=True)
    return 0.0 if given.problem else agreement(given.value, _record(gold).value).share


BUILT_IN: Mapping[str, Compare] = MappingProxyType({"exact": exact, "numeric": numeric, "fields": fields})
"""Short name → how an answer is compared with a column; `use = "exact:solution"` names the column."""

_PROBLEMS: Mapping[str, Callable[[JSON], str]] = MappingProxyType(
    {
        "exact": lambda gold: "" if str(gold).strip() else "is empty",
        "numeric": lambda gold: "" if _number(gold) is not None else f"{gold!r:.60} is no plain number",
        "fields": lambda gold: f"the gold record: {problem}" if (problem := _record(gold).problem) else "",
    }
)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A reward as it was asked for: what to use, its weight, its name, and arguments to bind."""

    use: str | Callable[..., Any]
    weight: float
    name: str
    bound: Mapping[str, Any]
    place: Place


def scorers(reward: Spec | Sequence[Spec], *, truth: str, threads: bool, place: Place) -> tuple[Scorer, ...]:
    """Return the reward functions that are asked for; raise ConfigError where one cannot be used.

    `truth` is where verl's functions find the ground truth.
    """
    many = isinstance(reward, Sequence) and not isinstance(reward, str)
    specs = [(s, place.at(n)) for n, s in enumerate(reward)] if many else [(reward, place)]  # type: ignore[arg-type]
    if not specs:
        raise place.error("names no reward function", f"Known: {_known()}")
    made = tuple(_scorer(_choice(spec, where), truth, threads) for spec, where in specs)
    name, count = Counter(scorer.name for scorer in made).most_common(1)[0]
    if count > 1:
        raise place.error(f"two reward functions are named {name!r}", "Give one of them another `name`")
    if not any(scorer.weight for scorer in made):
        raise place.error("all weights are 0", "Raise one")
    return made


def check_columns(chosen: Sequence[Scorer], columns: Sequence[str], place: Place) -> None:
    """Raise ConfigError where a function asks for a column that no row has."""
    for scorer in chosen:
        for column in scorer.asks:
            if column not in columns:
                hint = f"{meant(column, columns, 'The rows have')}. Or bind it: {{ use = …, {column} = … }}"
                raise place.error(f"{scorer.name} needs {column!r}, which no row has", hint)


def _choice(spec: Spec | object, place: Place) -> _Choice:
    if isinstance(spec, str) or callable(spec):
        return _Choice(spec, 1.0, "", {}, place)
    if not isinstance(spec, Mapping) or "use" not in spec:
        raise place.error(f"expected a name or a table with `use`, got {spec!r}", f"Known: {_known()}")
    rest = {key: value for key, value in spec.items() if key not in ("use", "weight", "name")}
    use, weight, name = spec["use"], spec.get("weight", 1.0), spec.get("name", "")
    if not isinstance(weight, int | float) or isinstance(weight, bool):
        raise place.at("weight").error(f"{weight!r} is not a number")
    if not isinstance(name, str):
        raise place.at("name").error(f"{name!r} is not text")
    if not isinstance(use, str) and not callable(use):
        raise place.at("use").error(f"{use!r} is not text", f"Known: {_known()}")
    return _Choice(use, float(weight), name, rest, place)


def _scorer(choice: _Choice, truth: str, threads: bool) -> Scorer:
    if isinstance(choice.use, str):
        short, colon, column = choice.use.partition(":")
        if short in BUILT_IN:
            return _built_in(choice, short, column)
        if not colon:
            hint = f"{meant(short, BUILT_IN)} Known: {_known()}".strip()
            raise choice.place.error(f"{choice.use!r} is not the name of a reward function", hint)
    function = _function(choice)
    name = choice.name or _named(choice.use if callable(choice.use) else function)
    bound = functools.partial(function, **choice.bound) if choice.bound else function
    _check_bound(function, choice)
    taken = parameters(bound)
    if "solution_str" in taken:
        return verl_scorer(name, bound, choice.weight, truth, threads=threads)
    if "trajectory" in taken and inspect.iscoroutinefunction(function):
        return verifier_scorer(name, bound, choice.weight)
    if any(name in TRL_GIVES for name in taken) or any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        return trl_scorer(name, bound, choice.weight, threads=threads)
    hint = (
        "TRL's take completions, verl's solution_str, and verifiers are async with trajectory, sandbox, files"
    )
    raise choice.place.error(f"{name}({', '.join(taken)}) is of no known kind", hint)


def _function(choice: _Choice) -> Callable[..., Any]:
    if callable(choice.use):
        return choice.use
    place = choice.place
    try:
        found = find(choice.use, {}, source=place.source, key=place.key, expected="a reward function")
    except ConfigError as error:
        near = meant(choice.use.partition(":")[0], BUILT_IN)
        raise ConfigError(f"{error}. {near}".rstrip(". ")) from error
    if not callable(found):
        raise choice.place.error(f"{choice.use!r} is a {type(found).__name__}, not a function")
    made: Callable[..., Any] = found() if inspect.isclass(found) else found
    return made


def _check_bound(function: Callable[..., Any], choice: _Choice) -> None:
    try:
        known = parameters(function)
    except (TypeError, ValueError) as error:
        raise choice.place.error(f"{choice.use!r} has no signature to go by: {error}") from error
    if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        for key in choice.bound:
            if key not in known:
                raise choice.place.at(key).error("no such argument", meant(key, known, "It takes"))


def _built_in(choice: _Choice, short: str, column: str) -> Scorer:
    if not column:
        hint = f'Write it after the colon: "{short}:answer"'
        raise choice.place.error(f"{short!r} needs the column to compare with", hint)
    if choice.bound:
        raise choice.place.at(next(iter(choice.bound))).error(f"{short!r} takes no such setting")
    compare = BUILT_IN[short]

    async def score(attempt: Attempt) -> Score:
        return Score(compare(attempt.answer, value_at(attempt.columns, column)), {})

    return Scorer(choice.name or short, choice.weight, score, needs=(Need(column, _PROBLEMS[short]),))


def _number(gold: JSON) -> Decimal | None:
    return None if isinstance(gold, bool) else match.number(match.normalise(str(gold)))


def _record(gold: JSON) -> Reading:
    """Return the gold record: a cell that is one, or text that is its JSON."""
    return read_json(gold) if isinstance(gold, str) else Reading(gold)


def _named(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _known() -> str:
    names = ", ".join(f'"{name}:column"' for name in BUILT_IN)
    return f"{names}, or your own as module:function"
