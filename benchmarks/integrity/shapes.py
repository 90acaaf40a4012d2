"""What a policy sees of a problem: the function's parameters and the visible calls with their answers.

Kinds of hacks are written against this view alone; hidden cases are not in it.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from posttrain.domains.problem import Problem
from posttrain.protocols import Case

Pair = tuple[tuple[Any, ...], Any]
"""The values of the parameters in a visible call, and the visible answer."""
SAME = ("==", "exact", "is")
"""Comparators that a memorised answer satisfies as it is."""
VIEWS = ("list", "tuple", "set", "sorted", "dict")


@dataclass(frozen=True, slots=True)
class Shape:
    """A function as its visible tests show it; `key` is an expression for all its arguments."""

    name: str
    parameters: str
    names: tuple[str, ...]
    key: str
    pairs: tuple[Pair, ...]

    @property
    def answers(self) -> tuple[Any, ...]:
        """Return the visible answers in the order of the tests."""
        return tuple(answer for _, answer in self.pairs)

    @property
    def modal(self) -> str:
        """Return the most frequent visible answer as source."""
        return Counter(map(literal, self.answers)).most_common(1)[0][0]

    def define(self, body: str, before: str = "") -> str:
        """Return the source of the function with a body, after what has to stand before it."""
        head = textwrap.dedent(before).strip("\n")
        body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        return f"{head}\n\n\ndef {self.name}({self.parameters}):\n{body}\n".lstrip("\n")


def shape_of(problem: Problem) -> Shape | None:
    """Return the view of a problem, or None where its visible tests are no plain calls with answers."""
    if problem.function is None or not problem.visible:
        return None
    node = function_node(problem.solution, problem.function)
    if node is None or not all(case.function == problem.function for case in problem.visible):
        return None
    signature = _signature(node)
    try:
        pairs = tuple(_pair(case, signature) for case in problem.visible)
        for key, answer in pairs:
            literal(key)
            literal(answer)
    except (TypeError, ValueError):
        return None
    if signature is None:
        return Shape(problem.function, "*args, **kwargs", ("args", "kwargs"), "(args, kwargs)", pairs)
    names = tuple(signature.parameters)
    listed = ", ".join(
        name if each.default is each.empty else f"{name}={literal(each.default)}"
        for name, each in signature.parameters.items()
    )
    return Shape(problem.function, listed, names, f"({', '.join(names)},)", pairs)


def function_node(source: str, name: str | None) -> ast.FunctionDef | None:
    """Return the definition of a function at the top of a source, or None."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found[-1] if found else None


def _signature(node: ast.FunctionDef) -> inspect.Signature | None:
    """Return the signature of plain parameters with literal defaults, or None for any other."""
    found = node.args
    if found.vararg or found.kwarg or found.kwonlyargs or found.posonlyargs or not found.args:
        return None
    parameter = inspect.Parameter
    names = [each.arg for each in found.args]
    missing = [parameter.empty] * (len(names) - len(found.defaults))
    try:
        defaults = [*missing, *map(ast.literal_eval, found.defaults)]
    except ValueError:
        return None
    kind = parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [parameter(name, kind, default=each) for name, each in zip(names, defaults, strict=True)]
    )


def _pair(case: Case, signature: inspect.Signature | None) -> Pair:
    if signature is None:
        return (tuple(case.arguments), dict(case.keywords)), answer_of(case)
    bound = signature.bind(*case.arguments, **case.keywords)
    bound.apply_defaults()
    return tuple(bound.arguments.values()), answer_of(case)


def answer_of(case: Case) -> Any:
    """Return the answer that passes a case; ValueError where the case does not show it."""
    view, _, rest = case.comparator.partition(" ")
    comparator = rest if view in VIEWS and rest else case.comparator
    if comparator in SAME or comparator.partition(":")[0] in ("float", "within", "unordered"):
        return case.expected
    if comparator in ("truthy", "falsy"):
        return comparator == "truthy"
    raise ValueError(f"{case.comparator!r} shows no answer")


def literal(value: Any) -> str:
    """Return a value as Python source; TypeError for what has no literal."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f'float("{value}")'
    if kind is list:
        return f"[{_all(value)}]"
    if kind is tuple:
        return f"({_all(value)},)" if len(value) == 1 else f"({_all(value)})"
    if kind is dict:
        return "{" + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items()) + "}"
    if kind is set:
        return f"{{{_all(sorted(value, key=repr))}}}" if value else "set()"
    if kind is frozenset:
        return f"frozenset([{_all(sorted(value, key=repr))}])"
    if value is None or kind in (bool, int, float, str, bytes, complex, range):
        return repr(value)
    raise TypeError(f"{kind.__name__} has no literal")


def _all(values: Iterable[Any]) -> str:
    return ", ".join(map(literal, values))


def is_readable(value: Any) -> bool:
    """Tell whether `ast.literal_eval` gives a value back from its `repr`."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False
