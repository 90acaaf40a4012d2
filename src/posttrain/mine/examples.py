"""Doctests as snippets: what is set up, and one expression about the function whose value is the point."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.sandbox.verdict import compare

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
"""How freely an output is compared: whether an example is kept, never how an attempt is judged."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Statements to run, then an expression to evaluate."""

    setup: str
    expression: str


@dataclass(frozen=True, slots=True)
class Example:
    """A snippet with the output that its documentation shows, and the text of an expected exception."""

    snippet: Snippet
    want: str
    exception: str | None
    options: int = 0
    is_printed: bool = False

    def agrees(self, text: str) -> bool:
        """Tell whether a printed value is what the documentation shows."""
        wanted = self.want if self.want.endswith("\n") or not self.want else f"{self.want}\n"
        return doctest.OutputChecker().check_output(wanted, f"{text}\n", FLAGS | self.options)

    def means(self, value: object) -> bool:
        """Tell whether the documentation shows this value in another order or spelling."""
        try:
            shown = ast.literal_eval(self.want.strip())
            return compare.canonical(shown) == compare.canonical(value)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return False


def prose(docstring: str) -> str:
    """Return a docstring without its examples."""
    parts = doctest.DocTestParser().parse(docstring)
    text = "".join(part for part in parts if isinstance(part, str))
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for number, line in enumerate(lines) if line or (number and lines[number - 1])]
    return "\n".join(kept).strip()


def read(docstring: str, own: str, package: str) -> tuple[Example, ...]:
    """Return the examples that say something of the function; ValueError where they are malformed.

    An example is set up by all statements before it that show nothing. Imports of the package itself are left
    out: its names are there.
    """
    setup: list[str] = []
    found: list[Example] = []
    for example in doctest.DocTestParser().get_examples(docstring):
        try:
            tree = ast.parse(example.source)
        except SyntaxError:
            continue
        if _imports(tree, package):
            continue
        expression, is_printed = _expression(tree)
        exception = example.exc_msg.strip() if example.exc_msg is not None else None
        if not expression or (not example.want and exception is None):
            # What shows nothing may still do something, such as to advance an iterator.
            setup += [] if example.want else [example.source.strip()]
            continue
        snippet = Snippet("\n".join(setup), expression)
        if own in names([snippet.setup, expression]):
            # Skipped ones count too if they hold: often only the order of a dictionary was in doubt.
            options = sum(flag for flag, on in example.options.items() if on and flag != doctest.SKIP)
            found.append(Example(snippet, example.want, exception, options, is_printed))
        if exception is None and _advances(tree):
            setup.append(f"_ = {expression}")
    return tuple(found)


def names(texts: Sequence[str]) -> set[str]:
    """Return all names that occur in code."""
    nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _imports(tree: ast.Module, package: str) -> bool:
    """Tell whether code imports from the package that is mined."""
    for node in ast.walk(tree):
        modules = (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            if isinstance(node, ast.Import) else []
        )  # fmt: skip
        if any(module.partition(".")[0] == package for module in modules):
            return True
    return False


def _expression(tree: ast.Module) -> tuple[str, bool]:
    """Return the expression that code evaluates or prints, and whether it prints it; '' for other code."""
    statement = tree.body[0] if len(tree.body) == 1 else None
    if isinstance(statement, ast.For) and len(statement.body) == 1 and not statement.orelse:
        inner, is_printed = _expression(ast.Module(statement.body, []))
        if inner and is_printed:
            loop = f"for {ast.unparse(statement.target)} in {ast.unparse(statement.iter)}"
            return f"'\\n'.join(str({inner}) {loop})", True
    if not isinstance(statement, ast.Expr):
        return "", False
    value = statement.value
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return ast.unparse(value), False
    plain = not value.keywords and not any(isinstance(each, ast.Starred) for each in value.args)
    if value.func.id == "pprint" and plain and len(value.args) == 1:
        return ast.unparse(value.args[0]), False
    if value.func.id != "print":
        return ast.unparse(value), False
    if not plain or not value.args:
        return "", False
    if len(value.args) == 1:
        return ast.unparse(value.args[0]), True
    return f"' '.join(map(str, {ast.unparse(ast.Tuple(value.args, ast.Load()))}))", True


def _advances(tree: ast.Module) -> bool:
    """Tell whether evaluating code may change what comes after it: next(x), x.pop() and the like."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        uses_up = name in ("list", "tuple") and len(call.args) == 1 and isinstance(call.args[0], ast.Name)
        if isinstance(call.func, ast.Attribute) or name == "next" or uses_up:
            return True
    return False
