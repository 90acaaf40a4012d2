"""Inputs in the neighbourhood of listed ones, of the same make: what a task takes is learnt from them.

All randomness is a function of a key. Numbers stay in the range seen, texts keep their characters' kinds,
sorted lists stay sorted, and so on, so that the task's own solution has a right answer to them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from posttrain.protocols import Case
from posttrain.rewards.integrity.cases import inputs, key, question
from posttrain.rewards.integrity.make import Make, keeps_relations, relations

NO_ANSWER = ("asserts", "custom", "raises")
"""Comparators whose cases say nothing of a plain answer."""
TRIES = 12


def sources(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that mutations can start from."""
    return [case for case in cases if case.comparator not in NO_ANSWER]


def mutants(cases: Sequence[Case], number: int, seed: str, own: str | None) -> list[Case]:
    """Return up to `number` cases with other inputs, in turn from each case; answers are not those expected.

    `own` is the function that the task asks for: where a case calls another one, its texts are code.
    """
    started = sources(cases)
    if not started:
        return []
    seen, found = {question(case) for case in cases}, list[Case]()
    makers = [_maker([each for each in started if each.function == case.function], own) for case in started]
    for turn in range(number * TRIES // len(started) + TRIES):
        for index, case in enumerate(started):
            if len(found) >= number:
                return found
            mutant = makers[index].mutate(case, Random(f"{seed} {index} {turn}"))
            if mutant is not None and question(mutant) not in seen:
                seen.add(question(mutant))
                found.append(mutant)
    return found


def neighbours(case: Case, cases: Sequence[Case], number: int, seed: str, own: str | None) -> list[Case]:
    """Return up to `number` cases near one of several; see `mutants`."""
    if case.comparator in NO_ANSWER:
        return []
    like = [each for each in sources(cases) if each.function == case.function]
    maker, seen, found = _maker(like, own), {question(each) for each in cases}, list[Case]()
    for turn in range(number * TRIES):
        mutant = maker.mutate(case, Random(f"{seed} {question(case)} {turn}"))
        if mutant is not None and question(mutant) not in seen:
            seen.add(question(mutant))
            found.append(mutant)
        if len(found) == number:
            break
    return found


def _maker(cases: Sequence[Case], own: str | None) -> _Arguments | _Code | _Lines:
    if cases[0].function is None:
        return _Lines()
    return _Arguments(cases) if cases[0].function == own else _Code()


class _Arguments:
    """Change one argument, or two, by what that argument looks like in all cases."""

    def __init__(self, cases: Sequence[Case]) -> None:
        width = max(len(inputs(case)) for case in cases)
        columns = [[given[i] for given in map(inputs, cases) if len(given) > i] for i in range(width)]
        self._makes = [Make(column) for column in columns]
        self._relations = relations([inputs(case) for case in cases])

    def mutate(self, case: Case, rng: Random) -> Case | None:
        """Return the case with other arguments, or None where that failed."""
        given = list(inputs(case))
        if not given:
            return None
        for place in rng.sample(range(len(given)), min(len(given), 1 + (rng.random() < 0.4))):
            given[place] = self._makes[place].near(given[place], rng)
        if not keeps_relations(tuple(given), self._relations):
            return None
        count = len(case.arguments)
        keywords = dict(zip(case.keywords, given[count:], strict=True))
        return replace(case, arguments=tuple(given[:count]), keywords=keywords)


class _Code:
    """Change a constant in the expression that is a case's last argument."""

    def mutate(self, case: Case, rng: Random) -> Case | None:
        """Return the case with another expression, or None where there is nothing to change."""
        if not case.arguments or not isinstance(case.arguments[-1], str):
            return None
        try:
            tree = ast.parse(case.arguments[-1], mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        places = list(_literals(tree))
        if not places:
            return None
        place = rng.choice(places)
        value = ast.literal_eval(place)
        new = ast.parse(repr(Make([value]).near(value, rng)), mode="eval").body
        changed = ast.unparse(ast.fix_missing_locations(_Swap(place, new).visit(tree)))
        return replace(case, arguments=(*case.arguments[:-1], changed))


def _literals(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.List | ast.Tuple) and not isinstance(
            getattr(node, "ctx", None), ast.Store
        ):
            try:
                ast.literal_eval(node)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                continue
            yield node


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        """Put the new node in the old one's place."""
        return self._new if node is self._old else super().generic_visit(node)


class _Lines:
    """Change a number or a word of what a program reads; counts in the first of several lines stay."""

    def mutate(self, case: Case, rng: Random) -> Case | None:
        """Return the case with other input, or None where there is no number or word to change."""
        text = case.stdin.decode("utf-8", "replace")
        lines = text.rstrip("\n").split("\n")
        start = len(lines[0]) if len(lines) > 1 else 0
        tokens = [found for found in re.finditer(r"-?\d+|[A-Za-z]+", text) if found.start() >= start]
        if not tokens:
            return None
        token = rng.choice(tokens)
        seen = [int(each[0]) if _is_number(each[0]) else each[0] for each in tokens]
        value = int(token[0]) if _is_number(token[0]) else token[0]
        like = [each for each in seen if type(each) is type(value)]
        new = str(Make(like).near(value, rng))
        if not new or key(new) == key(token[0]):
            return None
        return replace(case, stdin=f"{text[: token.start()]}{new}{text[token.end() :]}".encode())


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
