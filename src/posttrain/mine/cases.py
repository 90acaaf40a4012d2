"""From a snippet and what the real function answers to a case that the judge of training understands."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from posttrain.domains.problem import case_to_json
from posttrain.mine.boxes import Outcome
from posttrain.mine.examples import Snippet
from posttrain.protocols import Case
from posttrain.sandbox.verdict import compare
from posttrain.sandbox.verdict.claims import Asked, Scope, read_call
from posttrain.sandbox.verdict.constants import UNKNOWN, NotConstant, value

EVALUATE = "evaluate"
EVALUATOR = f'''def {EVALUATE}(setup, expression):
    """Run statements, then return the value of an expression."""
    scope = dict(globals())
    exec(setup, scope)
    return eval(expression, scope)
'''
"""Stands in the preamble where arguments are no plain data: functions, iterators, objects."""
TOLERANCE = "float:1e-9"
PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, range)


def case_of(
    snippet: Snippet, outcome: Outcome, own: str, known: Sequence[str], *, hidden: bool
) -> Case | None:
    """Return the case of a snippet whose outcome is right; None where the outcome cannot be compared.

    A call of the function with plain arguments becomes just that, everything else an expression that the box
    evaluates. `known` names what the preamble defines.
    """
    asked = _asked(snippet, own, known)
    if outcome.raised:
        expected: Any = [outcome.raised[0]]
        comparator = "raises"
        if asked is not None and asked.view:
            asked = None  # the view may be what raises
    else:
        expected, is_iterator = _listed(outcome.value)
        if not _is_comparable(expected):
            return None
        comparator = TOLERANCE if _has_float(expected) else "exact"
        view = "list" if is_iterator else asked.view if asked is not None else ""
        comparator = f"{view} {comparator}" if view else comparator
    if asked is not None:
        return Case(expected, own, asked.arguments, asked.keywords, comparator=comparator, hidden=hidden)
    arguments = (snippet.setup, snippet.expression)
    return Case(expected, EVALUATE, arguments, comparator=comparator, hidden=hidden)


def key(case: Case) -> str:
    """Return what tells a case's question from others."""
    packed = case_to_json(case)
    return repr([packed[name] for name in ("function", "arguments", "keywords")])


def answer(case: Case) -> str:
    """Return what tells a case's expected answer from others."""
    return f"{case.comparator == 'raises'} {compare.canonical(case.expected)}"


def _asked(snippet: Snippet, own: str, known: Sequence[str]) -> Asked | None:
    scope = Scope({own}, dict.fromkeys((*known, own), UNKNOWN))
    try:
        for statement in ast.parse(snippet.setup).body:
            _bind(statement, scope)
        asked = read_call(ast.parse(snippet.expression, mode="eval").body, scope)
        case_to_json(Case(None, own, asked.arguments, asked.keywords))
    except (NotConstant, TypeError, ValueError):
        return None
    return asked


def _bind(statement: ast.stmt, scope: Scope) -> None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise NotConstant("not an assignment")
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        raise NotConstant("not an assignment to one name")
    scope.names[target.id] = value(statement.value, scope.names)


def _listed(found: Any) -> tuple[Any, bool]:
    """Return a value, as a list where it is an iterator, and whether it is one."""
    is_iterator = type(found) is type(iter([]))
    return (list(found), True) if is_iterator else (found, False)


def _is_comparable(found: Any) -> bool:
    """Tell whether a value holds no iterators, which comparing would use up."""
    if type(found) in (list, tuple, set, frozenset):
        return all(map(_is_comparable, found))
    if type(found) is dict:
        return all(map(_is_comparable, found.values()))
    return type(found) in PLAIN


def _has_float(found: Any) -> bool:
    if type(found) in (list, tuple):
        return any(map(_has_float, found))
    if type(found) is dict:
        return any(map(_has_float, found.values()))
    return type(found) in (float, complex) and not (type(found) is float and not math.isfinite(found))
