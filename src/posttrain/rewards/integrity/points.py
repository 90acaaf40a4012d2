"""Tests of one subject for particular constants: a chain of them goes as a whole.

So what tells categories apart, and serves other inputs too, is seen to do so.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from posttrain.rewards.integrity.cases import ORDINARY
from posttrain.rewards.integrity.parts import Nodes, spoilt, spoilt_value


class Replace(ast.NodeTransformer):
    """Put other nodes, or statements, in the place of some, told by identity."""

    def __init__(self, new: Mapping[int, ast.AST | list[ast.stmt]]) -> None:
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        """Put the new node, or statements, in the old one's place."""
        return self._new[id(node)] if id(node) in self._new else super().generic_visit(node)


def is_point(node: ast.AST) -> bool:
    """Tell whether an expression is a test for equality with a constant, or several of them."""
    if isinstance(node, ast.BoolOp):
        return all(map(is_point, node.values))
    return _subject(node) is not None


def _subject(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """Return what a test for equality looks at and the constant, or None for any other node."""
    if (
        not isinstance(node, ast.Compare)
        or len(node.ops) != 1
        or not isinstance(node.ops[0], ast.Eq | ast.NotEq)
    ):
        return None
    left, right = node.left, node.comparators[0]
    for subject, constant in ((left, right), (right, left)):
        if _is_constant(constant) and not _is_constant(subject):
            return subject, constant
    return None


def _is_constant(node: ast.expr) -> bool:
    return not any(isinstance(each, ast.Name | ast.Call | ast.Attribute) for each in ast.walk(node))


def without_points(tree: ast.Module) -> Iterator[tuple[Callable[[], ast.Module], Nodes]]:
    """Yield how to make the tree with no test of one subject holding, and with those branches spoilt.

    Only tests for particular constants count, so that what is special of 0 or "" stays.
    """
    subjects: dict[str, list[int]] = {}
    gone: dict[str, list[ast.AST]] = {}
    parents = {id(node.test): node for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp)}
    for index, node in enumerate(ast.walk(tree)):
        found = _subject(node)
        if found is None or not _is_particular(found[1]):
            continue
        name = ast.dump(found[0])
        subjects.setdefault(name, []).append(index)
        parent = parents.get(id(node))
        body = [] if parent is None else parent.body if isinstance(parent.body, list) else [parent.body]
        gone.setdefault(name, []).extend([node, *body])
    for name, indices in subjects.items():
        yield partial(_untrue, tree, indices), gone[name]
        yield partial(_spoilt_behind, tree, indices), gone[name]


def _untrue(tree: ast.Module, indices: Sequence[int]) -> ast.Module:
    """Return a copy of the tree with some tests never holding."""
    changed = copy.deepcopy(tree)
    nodes = list(ast.walk(changed))
    new: dict[int, ast.AST | list[ast.stmt]] = {}
    for index in indices:
        test = nodes[index]
        assert isinstance(test, ast.Compare)
        new[id(test)] = ast.Constant(isinstance(test.ops[0], ast.NotEq))
    return _made(Replace(new), changed)


def _spoilt_behind(tree: ast.Module, indices: Sequence[int]) -> ast.Module:
    """Return a copy of the tree with the branches behind some tests spoilt."""
    changed = copy.deepcopy(tree)
    nodes = list(ast.walk(changed))
    tests = {id(nodes[index]) for index in indices}
    new: dict[int, ast.AST | list[ast.stmt]] = {}
    for node in nodes:
        if isinstance(node, ast.If | ast.IfExp) and any(id(each) in tests for each in ast.walk(node.test)):
            if isinstance(node, ast.If):
                new |= {id(each): ast.Pass() for each in node.body[1:]}
                new[id(node.body[0])] = spoilt()
            else:
                new[id(node.body)] = spoilt_value()
    return _made(Replace(new), changed)


def _made(change: Replace, tree: ast.Module) -> ast.Module:
    made = change.visit(tree)
    assert isinstance(made, ast.Module)
    return made


def _is_particular(node: ast.expr) -> bool:
    """Tell whether a constant is one that needs an explanation."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return True
    return not any(type(value) is type(each) and value == each for each in ORDINARY)
