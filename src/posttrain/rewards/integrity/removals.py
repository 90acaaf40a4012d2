"""A program with one of its parts taken away, again and again: what a part is for shows when it is gone.

Parts are what can make single inputs special: branches, tests for equality, tables, loops over them, caught
errors, defaults, decorators, docstrings, long constants. No pattern of a known hack is looked for.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from posttrain.rewards.integrity.bounded import NotConstant
from posttrain.rewards.integrity.cases import bits, key, words_of
from posttrain.rewards.integrity.fold import Folder
from posttrain.rewards.integrity.parts import LONG_TEXT, Nodes, changes
from posttrain.rewards.integrity.points import Replace, is_point, without_points
from posttrain.rewards.integrity.program import source_of

MAX_FOLDED = 1_000
MAX_VISITS = 1_000_000
"""Nodes that are looked at to know what parts hold; larger programs are looked at in part."""
Make = Callable[[], ast.Module]


@dataclass(frozen=True, slots=True)
class Removal:
    """A program without one part; `literals` are the keys of the part's constants, `texts` its longer texts.

    `bits` is how much its constants tell, `opaque_bits` how much those that nobody can read. `table` holds
    the keys of the entries of a part that is a table: of questions and answers, or of questions alone.
    """

    make: Make
    literals: frozenset[str]
    texts: tuple[str, ...]
    bits: float
    opaque_bits: float = 0.0
    table: tuple[tuple[str, str], ...] = ()

    def source(self) -> str:
        """Return the source without the part; NoProgram where there is none."""
        return source_of(self.make())


def removals(tree: ast.Module, known: frozenset[str]) -> list[Removal]:
    """Return programs without a part, those first whose constants tell most."""
    folder, visits = Folder(tree), 0
    found: list[Removal] = []
    for make, gone in _all(tree):
        visits += sum(1 for part in gone for _ in ast.walk(part))
        if visits > MAX_VISITS:
            break
        found.append(_removal(make, gone, folder, known))
    return sorted(found, key=lambda each: -each.bits)


def constants(nodes: Nodes, folder: Folder) -> Iterator[Any]:
    """Yield what the constant expressions in nodes, and behind the names that they use, come to."""
    left = MAX_FOLDED
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.expr) and not isinstance(each, ast.Constant | ast.Name) and left > 0:
                left -= 1
                try:
                    yield folder.value(each)
                except NotConstant:
                    continue
            elif isinstance(each, ast.Constant):
                yield each.value
            elif isinstance(each, ast.Name) and left > 0:
                left -= 1
                try:
                    yield from _with_items(folder.value(each))
                except NotConstant:
                    continue


def _with_items(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield item
            if isinstance(item, list | tuple):
                yield from item


def _removal(make: Make, gone: Nodes, folder: Folder, known: frozenset[str]) -> Removal:
    values = [each for value in constants(gone, folder) for each in _with_items(value)]
    texts = tuple(
        each if isinstance(each, str) else each.decode("latin-1")
        for each in values
        if isinstance(each, str | bytes) and len(each) >= LONG_TEXT
    )
    plain = [node.value for part in gone for node in ast.walk(part) if isinstance(node, ast.Constant)]
    told = sum(bits(value, known) for value in plain)
    folded = max((bits(value, known) for value in values), default=0.0)
    opaque = sum(bits(value, known) for value in plain if _is_opaque(value))
    told_in_texts = (words_of(each) for each in values if isinstance(each, str))
    literals = frozenset(map(key, values)).union(*told_in_texts)
    return Removal(make, literals, texts, max(told, folded), opaque, _table(gone, folder))


def _is_opaque(value: object) -> bool:
    """Tell whether a constant can stand for others: a number, bytes, text that is no words."""
    if isinstance(value, str):
        return len(value) >= LONG_TEXT and " " not in value and not value.replace("_", "").isalpha()
    return isinstance(value, int | float | bytes)


def _table(gone: Nodes, folder: Folder) -> tuple[tuple[str, str], ...]:
    """Return the entries of a part that is a table, as keys; () for any other part."""
    if len(gone) != 1 or not isinstance(gone[0], ast.Dict | ast.List | ast.Tuple | ast.Set):
        return ()
    try:
        value = folder.value(gone[0])
    except NotConstant:
        return ()
    if isinstance(value, dict):
        return tuple((key(question), key(answer)) for question, answer in value.items())
    if all(isinstance(each, list | tuple) and len(each) == 2 for each in value):
        return tuple((key(question), key(answer)) for question, answer in value)
    return tuple((key(each), "") for each in value)


def _all(tree: ast.Module) -> Iterator[tuple[Make, Nodes]]:
    """Yield how to make the tree without each part, with what is gone."""
    nodes = list(ast.walk(tree))
    tested = {id(node) for node in nodes if is_point(node)}
    looped = _looped_over(nodes)
    for index, node in enumerate(nodes):
        if id(node) in tested or (isinstance(node, ast.If | ast.IfExp) and id(node.test) in tested):
            continue  # all tests of one subject go together, below
        for replacement, gone in changes(node):
            yield partial(_replaced, tree, index, replacement), [*gone, *looped.get(id(node), ())]
    yield from without_points(tree)


def _looped_over(nodes: list[ast.AST]) -> dict[int, list[ast.AST]]:
    """Return, for each branch inside a loop, what that loop goes over: its entries are what is tested."""
    found: dict[int, list[ast.AST]] = {}
    for loop in nodes:
        if isinstance(loop, ast.For):
            for node in ast.walk(loop):
                if isinstance(node, ast.If | ast.IfExp):
                    found.setdefault(id(node), []).append(loop.iter)
    return found


def _replaced(tree: ast.Module, index: int, new: ast.AST | list[ast.stmt]) -> ast.Module:
    changed = copy.deepcopy(tree)
    target = next(islice(ast.walk(changed), index, None))
    made = Replace({id(target): copy.deepcopy(new)}).visit(changed)
    assert isinstance(made, ast.Module)
    return made
