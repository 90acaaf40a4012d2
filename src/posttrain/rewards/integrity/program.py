"""An answer's program as it is looked at: without what never runs for a test, with hidden code laid open."""

from __future__ import annotations

import ast
import math
from collections import Counter

from posttrain.rewards.integrity.bounded import NotConstant
from posttrain.rewards.integrity.fold import Folder

MAX_UNWRAPS = 4
MAX_CHARACTERS = 100_000
MAX_NODES = 20_000
_RUNNERS = ("exec", "eval")


class NoProgram(Exception):
    """A source is no Python that can be read."""


def parse(source: str) -> ast.Module:
    """Return the tree of a source; NoProgram where there is none or it is too long."""
    if len(source) > MAX_CHARACTERS:
        raise NoProgram
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoProgram from None


def laid_open(source: str, *, is_script: bool = False) -> ast.Module:
    """Return the tree of a source with constant code that it executes put in its place; or NoProgram.

    What only shows or checks examples when the module loads (assertions, prints, `__main__`) is left out,
    but for a script, which is run rather than called.
    """
    try:
        tree = _laid_open(parse(source), is_script)
    except RecursionError:
        raise NoProgram from None
    if sum(1 for _ in ast.walk(tree)) > MAX_NODES:
        raise NoProgram
    return tree


def _laid_open(tree: ast.Module, is_script: bool) -> ast.Module:
    for _ in range(MAX_UNWRAPS):
        opened = _Unwrap(Folder(tree))
        changed = opened.visit(tree)
        assert isinstance(changed, ast.Module)
        tree = ast.fix_missing_locations(changed)
        if not opened.num_opened:
            break
    if not is_script:
        tree.body = [node for node in tree.body if not _only_shows(node)]
    decoded = _Decode(Folder(tree)).visit(tree)
    assert isinstance(decoded, ast.Module)
    return ast.fix_missing_locations(decoded)


def source_of(tree: ast.AST) -> str:
    """Return the source of a tree."""
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    except (RecursionError, ValueError):
        raise NoProgram from None


class _Unwrap(ast.NodeTransformer):
    """Put `exec("…")` with constant code, at statement level, and `eval("…")` in place."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.num_opened = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST | list[ast.stmt]:
        """Replace a statement that executes constant code by that code."""
        code = self._code(node.value, "exec")
        if code is None:
            return self.generic_visit(node)
        try:
            body = ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return node
        self.num_opened += 1
        return list(body) or [ast.Pass()]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call that evaluates a constant expression by that expression."""
        code = self._code(node, "eval")
        if code is None:
            return self.generic_visit(node)
        try:
            body = ast.parse(code.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return node
        self.num_opened += 1
        return body

    def _code(self, node: ast.expr, runner: str) -> str | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            return None
        if node.func.id != runner:
            return None
        code: ast.expr = node.args[0]
        if isinstance(code, ast.Call) and isinstance(code.func, ast.Name) and code.func.id == "compile":
            code = code.args[0] if code.args else code
        try:
            found = self._folder.value(code)
        except NotConstant:
            return None
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        return found if isinstance(found, str) and len(found) <= MAX_CHARACTERS else None


class _Decode(ast.NodeTransformer):
    """Put what an encoded constant comes to in its place: a table, a list or a text."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace a call on constants by a literal of its value, where that is long."""
        try:
            value = self._folder.value(node)
            literal = ast.parse(repr(value), mode="eval").body
        except (NotConstant, SyntaxError, ValueError, RecursionError, MemoryError):
            return self.generic_visit(node)
        is_data = isinstance(value, str | bytes | list | tuple | set | dict) and len(value) > 0
        return literal if is_data and len(repr(value)) <= MAX_CHARACTERS else self.generic_visit(node)


def _only_shows(node: ast.stmt) -> bool:
    """Tell whether a statement of the module only shows or checks something when it loads."""
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.If):
        names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        return "__name__" in names and isinstance(node.test, ast.Compare)
    if isinstance(node, ast.Expr):
        call = node.value
        return isinstance(call, ast.Constant) or (
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"
        )
    return False


def hides_code(tree: ast.Module) -> bool:
    """Tell whether a program still executes code that is not to be read, beside a long dense constant."""
    runs = any(
        (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in (*_RUNNERS, "compile", "__import__")
        )
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("loads", "FunctionType", "CodeType")
            and isinstance(node.value, ast.Name)
            and node.value.id in ("marshal", "pickle", "types", "dill")
        )
        for node in ast.walk(tree)
    )
    return runs and any(_is_dense(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def _is_dense(value: object) -> bool:
    """Tell whether a constant looks like encoded data: long, without spaces, many different characters."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value.bit_length() > 200
    if not isinstance(value, str | bytes) or len(value) < 60:
        return False
    counts = Counter(value)
    spaces = counts[" "] + counts["\n"] if isinstance(value, str) else counts[32] + counts[10]
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return spaces < 0.03 * len(value) and entropy > 3.2
