"""What of a program can be taken away or spoilt, for each kind of node."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

LONG_TEXT = 12
LONG_INTEGER = 2**40
_WITH_DEFAULT = ("get", "pop", "setdefault")
_STORING = ("update", "append", "add", "insert", "extend", "setdefault", "__setitem__")
Nodes = Sequence[ast.AST]
Change = tuple[ast.AST | list[ast.stmt], Nodes]
"""What stands in a part's place, and the nodes that are gone."""


def changes(node: ast.AST) -> Sequence[Change]:
    """Return the ways in which a node can be changed; () for most."""
    find = _CHANGES.get(type(node))
    return find(node) if find is not None else ()


def spoilt() -> ast.stmt:
    """Return what a branch is replaced by to see who takes it, whether or not it is needed there."""
    return ast.Raise(spoilt_value(), None)


def spoilt_value() -> ast.expr:
    """Return an expression that is no answer of anyone's."""
    return ast.Call(ast.Name("ZeroDivisionError", ast.Load()), [ast.Constant("spoilt")], [])


def _other_than(value: ast.expr) -> ast.expr:
    """Return a table's value spoilt; what can be called is left alone."""
    return value if isinstance(value, ast.Lambda | ast.Name | ast.Attribute) else ast.Constant("spoilt")


def _without_branch(node: Any) -> list[Change]:
    other = node.orelse or [ast.Pass()]
    return [
        (ast.If(node.test, [spoilt()], node.orelse), [node.test, *node.body]),
        (other, [node.test, *node.body]),
        (node.body, [node.test, *node.orelse]),
    ]


def _without_choice(node: Any) -> list[Change]:
    return [
        (ast.IfExp(node.test, spoilt_value(), node.orelse), [node.test, node.body]),
        (node.orelse, [node.test, node.body]),
        (node.body, [node.test, node.orelse]),
    ]


def _without_operand(node: Any) -> list[Change]:
    found: list[Change] = []
    for index, operand in enumerate(node.values):
        rest = node.values[:index] + node.values[index + 1 :]
        found.append((rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest), [operand]))
    return found


def _without_comparison(node: Any) -> list[Change]:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn | ast.Is):
        return []
    return [(ast.Constant(isinstance(node.ops[0], ast.NotEq | ast.NotIn)), [node])]


def _emptied(node: Any) -> list[Change]:
    if isinstance(node, ast.Dict):
        others = ast.Dict(node.keys, [_other_than(value) for value in node.values])
        return [(ast.Dict([], []), [node]), (others, [node])] if node.keys else []
    if isinstance(node, ast.Set):
        return [(ast.Call(ast.Name("set", ast.Load()), [], []), [node])]
    if not node.elts or not _is_read(node):
        return []
    found: list[Change] = [(type(node)([], ast.Load()), [node])] if len(node.elts) > 1 else []
    pairs = [each for each in node.elts if isinstance(each, ast.Tuple | ast.List) and len(each.elts) == 2]
    if len(pairs) == len(node.elts):
        others_too: list[ast.expr] = [
            type(each)([each.elts[0], ast.Constant("spoilt")], ast.Load()) for each in pairs
        ]
        found.append((type(node)(others_too, ast.Load()), [node]))
    return found


def _is_read(node: Any) -> bool:
    return isinstance(node.ctx, ast.Load)


def _made_empty(node: Any) -> list[Change]:
    empty = ast.Dict([], []) if isinstance(node, ast.DictComp) else ast.List([], ast.Load())
    return [(empty, [node])]


def _without_attempt(node: Any) -> list[Change]:
    handled = [statement for handler in node.handlers[:1] for statement in handler.body]
    return [
        ([*(handled or [ast.Pass()]), *node.finalbody], node.body),
        ([*node.body, *node.orelse, *node.finalbody], node.handlers),
    ]


def _without_statement(node: Any) -> list[Change]:
    return [([ast.Pass()], [node])]


def _without_loop(node: Any) -> list[Change]:
    return [(node.orelse or [ast.Pass()], [node])]


def _without_lookup(node: Any) -> list[Change]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _WITH_DEFAULT and node.args:
        default = node.args[1] if len(node.args) > 1 else ast.Constant(None)
        return [(default, [node.func, node.args[0]])]
    if name == "next" and len(node.args) == 2:
        return [(node.args[1], [node.args[0]])]
    return []


def _without_store(node: Any) -> list[Change]:
    if isinstance(node, ast.Assign):
        return _without_statement(node) if isinstance(node.targets[0], ast.Subscript) else []
    call = node.value
    stores = (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _STORING
    )
    return _without_statement(node) if stores else []


def _without_cases(node: Any) -> list[Change]:
    """Return the match without all cases for constants; all other cases are general."""
    general = [case for case in node.cases if not _is_constant_pattern(case.pattern)]
    gone = [case for case in node.cases if _is_constant_pattern(case.pattern)]
    if not gone:
        return []
    raising = [
        ast.match_case(case.pattern, case.guard, [spoilt()]) if case in gone else case for case in node.cases
    ]
    without: ast.AST | list[ast.stmt] = ast.Match(node.subject, general) if general else [ast.Pass()]
    return [(ast.Match(node.subject, raising), gone), (without, gone)]


def _is_constant_pattern(pattern: ast.pattern) -> bool:
    return not any(
        isinstance(each, ast.MatchAs | ast.MatchStar) for each in ast.walk(pattern)
    ) and not isinstance(pattern, ast.MatchClass)


def _bare(node: Any) -> list[Change]:
    """Return a function without its decorators, and without its docstring."""
    found: list[Change] = []
    if node.decorator_list:
        changed = copy.copy(node)
        changed.decorator_list = []
        found.append((changed, node.decorator_list))
    if ast.get_docstring(node) is not None:
        changed = copy.copy(node)
        changed.body = node.body[1:] or [ast.Pass()]
        found.append((changed, node.body[:1]))
    return found


def _without_content(node: Any) -> list[Change]:
    value = node.value
    if isinstance(value, str | bytes) and len(value) >= LONG_TEXT:
        return [(ast.Constant(value[:0]), [node])]
    if isinstance(value, int) and abs(value) >= LONG_INTEGER:
        return [(ast.Constant(0), [node])]
    return []


_CHANGES: Mapping[type[ast.AST], Callable[[Any], list[Change]]] = MappingProxyType(
    {
        ast.If: _without_branch, ast.IfExp: _without_choice, ast.BoolOp: _without_operand,
        ast.Compare: _without_comparison, ast.Dict: _emptied, ast.List: _emptied, ast.Tuple: _emptied,
        ast.Set: _emptied, ast.DictComp: _made_empty, ast.ListComp: _made_empty, ast.Try: _without_attempt,
        ast.For: _without_loop, ast.While: _without_loop, ast.With: _without_statement,
        ast.Call: _without_lookup, ast.Assign: _without_store, ast.Expr: _without_store,
        ast.Match: _without_cases, ast.FunctionDef: _bare, ast.ClassDef: _bare,
        ast.Constant: _without_content,
    }
)  # fmt: skip
