"""Test code that does not convert to cases, run in a box of its own: it calls a stand-in for the candidate.

The source of this module is the program of that box. The stand-in answers from what the candidate has
answered so far, as plain data; where an answer is missing, the test is played on with a placeholder to find
out what else it will ask, and begun anew once those answers are there. Only a test that ran from start to end
on real answers counts. Besides the standard library it needs `plain.py`, which goes along.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import random
import traceback
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from posttrain.sandbox import plain

Given = tuple[bytes, str, Any]
"""An answer: its call's line; then 'value' and its line, 'raised' with class names and text, or 'ended'."""

TEST_FILE = "test"
MAX_AHEAD = 500
"""Calls that a test may ask for on placeholders before those answers are fetched."""


class Pending(BaseException):
    """An answer that is not there yet was looked at."""


class Over(BaseException):
    """The test cannot go on, whatever it would catch."""


class Placeholder:
    """Stand for an answer that is not there yet; whoever looks at it learns that."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Pending


def _look(*_: object, **__: object) -> NoReturn:
    raise Pending


_LOOKS = {name for kind in (int, float, str, list, dict) for name in vars(kind)} - {*vars(object)}
_LOOKS |= {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__str__", "__repr__"}
for _name in ("__call__", "__format__", "__matmul__", "__next__", *_LOOKS):
    if _name.startswith("__"):
        setattr(Placeholder, _name, _look)


class Test:
    """One playing of a test with the answers given so far."""

    def __init__(self, given: Sequence[Given], goes_ahead: bool) -> None:
        self.given, self.goes_ahead = given, goes_ahead
        self.calls: list[bytes] = []
        self.raised: dict[int, BaseException] = {}
        self.num_missing = 0
        self.over: tuple[Any, ...] | None = None
        self.namespace: dict[str, Any] = {"__name__": "__test__"}

    def stand_in(self, function: str) -> Any:
        """Return what the test calls in place of one of the candidate's functions."""

        def candidate(*arguments: Any, **keywords: Any) -> Any:
            return self.answer(function, arguments, keywords)

        candidate.__name__ = candidate.__qualname__ = function.rpartition(".")[2]
        return candidate

    def answer(self, function: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return the answer to a call, raise what the candidate raised, or return a placeholder."""
        if self.over is not None:
            raise Over
        try:
            line = plain.dumps((function, arguments, keywords), iterators=True)
        except (TypeError, ValueError) as error:
            if self.num_missing:
                raise Pending from None
            self._end("failed", f"cannot pass on {error}")
        index = len(self.calls)
        self.calls.append(line)
        if index < len(self.given) and self.given[index][0] == line:
            return self._recall(index)
        self.given = self.given[:index]
        self.num_missing += 1
        if not self.goes_ahead or self.num_missing > MAX_AHEAD:
            self._end("calls")
        return Placeholder()

    def swallow(self, error: BaseException) -> None:
        """Go on after an error that came of playing ahead; raise every other one."""
        if self.over is not None or not self.num_missing:
            raise error

    def _recall(self, index: int) -> Any:
        _, kind, content = self.given[index]
        if kind == "value":
            return plain.loads(content)
        if kind == "ended":
            self._end("ended", index)
        names, text = content
        error = self.raised[index] = self._exception(names, text)
        raise error

    def _exception(self, names: Sequence[str], text: str) -> BaseException:
        for name in names:
            kind = self.namespace.get(name, getattr(builtins, name, None))
            if isinstance(kind, type) and issubclass(kind, Exception):
                with contextlib.suppress(TypeError):
                    return kind(text)
        return Exception(text)

    def _end(self, *how: Any) -> NoReturn:
        self.over = how
        raise Over


class Patient(ast.NodeTransformer):
    """Let every statement of a test, but no definition at its top, go on where an answer is missing."""

    def visit(self, node: ast.AST) -> Any:
        """Wrap the statements in each body below a node."""
        self.generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                setattr(node, name, [_wrapped(statement) for statement in body])
        return node


_WRAPPER = "try:\n    pass\nexcept BaseException as __error__:\n    __swallow__(__error__)\n"
_UNWRAPPED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal,
    ast.Return, ast.Break, ast.Continue, ast.Pass, ast.Raise,
)  # fmt: skip


def _wrapped(statement: ast.stmt) -> ast.stmt:
    if isinstance(statement, _UNWRAPPED) or _is_text(statement):
        return statement
    (wrapper,) = ast.parse(_WRAPPER).body
    assert isinstance(wrapper, ast.Try)
    wrapper.body = [statement]
    return ast.copy_location(wrapper, statement)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _foreign_functions(tree: ast.AST, namespace: dict[str, Any]) -> Iterator[str]:
    """Yield the functions that a test calls and nobody here defines: the candidate's program must."""
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    bound |= {(n.asname or n.name).partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name not in bound and name not in namespace and not hasattr(builtins, name):
                yield name


def _calls_check(tree: ast.Module) -> bool:
    """Tell whether a test defines `check` and leaves it to us to call it, as HumanEval's do."""
    defines = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    calls = [n.value.func for n in tree.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    return defines and not any(isinstance(call, ast.Name) and call.id == "check" for call in calls)


def play(
    source: str, preamble: str, function: str, given: Sequence[Given], goes_ahead: bool
) -> tuple[str, list[bytes], Any]:
    """Play a test with the answers given so far; return how it went, the calls it made, and more about it.

    passed, failed: to its end on real answers alone. calls: it needs answers; those to as many first calls
    as `more` says were there. ended, raised: by the answer of this index.
    """
    test = Test(given, goes_ahead)
    random.seed(0)
    try:
        exec(compile(preamble, "preamble", "exec", dont_inherit=True), test.namespace)
        _run(test, ast.parse(source), function)
    except BaseException as error:
        return _told(test, error)
    return _told(test, None)


def _run(test: Test, tree: ast.Module, function: str) -> None:
    leaves_check = _calls_check(tree)
    for name in (function, *_foreign_functions(tree, test.namespace)):
        test.namespace[name] = test.stand_in(name)
    test.namespace["__swallow__"] = test.swallow
    exec(compile(ast.fix_missing_locations(Patient().visit(tree)), TEST_FILE, "exec"), test.namespace)
    if leaves_check:
        test.namespace["check"](test.stand_in(function))


def _told(test: Test, error: BaseException | None) -> tuple[str, list[bytes], Any]:
    how, *more = test.over or ("",)
    if how == "calls" or (test.num_missing and not how):
        return "calls", test.calls, len(test.calls) - test.num_missing
    if how:
        return how, test.calls, more[0]
    if error is None and test.calls:
        return "passed", test.calls, None
    if error is None:
        return "failed", test.calls, "it never calls the candidate"
    for index, raised in test.raised.items():
        if error is raised:
            return "raised", test.calls, index
    lines = [line for line in traceback.extract_tb(error.__traceback__) if line.filename == TEST_FILE]
    where = f" in line {lines[-1].lineno}" if lines else ""
    return "failed", test.calls, f"{type(error).__name__}: {error}"[:400] + where
