"""More inputs: an example's literals changed one at a time, and its arguments swapped."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from posttrain.mine.examples import Snippet

LARGE = 1_000


def mutants(snippet: Snippet, own: str, most: int) -> list[Snippet]:
    """Return up to `most` different mutations of a snippet, chosen by hash: the same ones every time."""
    found = _ordered(_all(snippet, own))
    if len(found) < most:
        # Two changes at once where single ones are few.
        twice = (mutant for once in found[:most] for mutant in _all(once, own))
        found += _ordered(islice(twice, 4 * most))
    return [mutant for mutant in dict.fromkeys(found) if mutant != snippet][:most]


def _ordered(some: Iterable[Snippet]) -> list[Snippet]:
    """Return snippets in an order that has nothing to do with how they were made."""
    digest = {
        m: hashlib.sha256(f"{m.setup}\n{m.expression}".encode("utf-8", "replace")).digest() for m in some
    }
    return sorted(digest, key=digest.__getitem__)


def _all(snippet: Snippet, own: str) -> Iterator[Snippet]:
    text = f"{snippet.setup}\n{snippet.expression}"
    num_places = sum(1 for _ in _places(ast.parse(text)))
    for place in range(num_places):
        for change in range(_MOST_CHANGES):
            tree = ast.parse(text)
            target = list(_places(tree))[place]
            options = _changes(target, own)
            if change >= len(options):
                break
            _Replace(target, options[change]).visit(tree)
            yield _snippet(ast.fix_missing_locations(tree))


def _snippet(tree: ast.Module) -> Snippet:
    *before, last = tree.body
    return Snippet("\n".join(map(ast.unparse, before)), ast.unparse(last))


_PLACES = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Call)


def _places(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the nodes that can be changed, outermost first."""
    for node in ast.walk(tree):
        if isinstance(node, _PLACES) and not isinstance(getattr(node, "ctx", None), ast.Store):
            yield node


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Put the new node in the old one's place."""
        if node is self._old:
            return self._new
        return super().generic_visit(node)


_MOST_CHANGES = 8


def _changes(node: ast.expr, own: str) -> list[ast.expr]:
    """Return what a node may be replaced by."""
    if isinstance(node, ast.Constant):
        return _of_constant(node.value)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_rebuilt(node, elements) for elements in _of_elements(node.elts)]
    if isinstance(node, ast.Dict):
        return [_without_entry(node, index) for index in range(len(node.keys))][:3]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == own:
        return _of_call(node)
    return []


def _of_constant(value: object) -> list[ast.expr]:
    changed: list[object] = []
    if isinstance(value, bool):
        changed = [not value]
    elif isinstance(value, int):
        changed = [value + 1, value - 1, 0, -value, value * 2 + 3, LARGE]
    elif isinstance(value, float):
        changed = [value + 1, -value, 0.0, value / 3, value * 1e3]
    elif isinstance(value, str):
        changed = [
            value[:-1],
            value + value,
            value[::-1],
            "",
            value.swapcase(),
            value + "é 1",
            f"{value[1:]}x7",
        ]
    elif isinstance(value, bytes):
        changed = [value[:-1], value + value, value[::-1], b""]
    return [_literal(each) for each in dict.fromkeys(changed) if each != value]


def _literal(value: object) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


def _of_elements(elements: list[ast.expr]) -> list[list[ast.expr]]:
    if not elements:
        return [[_literal(1)], [_literal("a"), _literal("b")]]
    return [
        [], elements[:-1], elements[1:], elements[::-1], elements + elements[:1], elements + elements,
        elements[:1], elements[1:] + elements[:1],
    ]  # fmt: skip


def _rebuilt(node: ast.List | ast.Tuple | ast.Set, elements: list[ast.expr]) -> ast.expr:
    if isinstance(node, ast.Set):
        return ast.Set(elements) if elements else ast.parse("set()", mode="eval").body
    return type(node)(elements, ast.Load())


def _without_entry(node: ast.Dict, index: int) -> ast.expr:
    keys, values = list(node.keys), list(node.values)
    return ast.Dict(keys[:index] + keys[index + 1 :], values[:index] + values[index + 1 :])


def _of_call(node: ast.Call) -> list[ast.expr]:
    """Return the call with two arguments swapped, and without its last argument or keyword."""
    swapped = [
        ast.Call(
            node.func, [*node.args[:i], node.args[i + 1], node.args[i], *node.args[i + 2 :]], node.keywords
        )
        for i in range(len(node.args) - 1)
    ]
    fewer = [ast.Call(node.func, node.args[:-1], node.keywords)] if len(node.args) > 1 else []
    plain = [ast.Call(node.func, node.args, node.keywords[:-1])] if node.keywords else []
    return [*swapped[:3], *fewer, *plain]
