"""Assert-style test code, as in HumanEval and MBPP, turned into cases: calls, and what their answers must be.

Only what surely means the same converts: assertions about one call with constant arguments, one after the
other or in loops over constants. All other test code becomes a single case, run in a box of its own. A
function is judged by what it returns or raises, never by what it did to its arguments.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from posttrain.errors import InputError
from posttrain.protocols import Case
from posttrain.sandbox import plain
from posttrain.sandbox.verdict.claims import Scope, read_call, read_claim
from posttrain.sandbox.verdict.constants import UNKNOWN, NotConstant, value
from posttrain.sandbox.verdict.forwarded import Test

MAX_CASES = 2_000
"""Assertions that loops may unroll to."""
MAX_STEPS = 100_000
CATCH_ASSERTIONS = ("AssertionError", "Exception", "BaseException")
"""Handlers of these also catch the assertion that no exception came."""


def read(source: str, function: str, preamble: str = "") -> tuple[Case, ...]:
    """Return the cases of test code for a function: one for each assertion, or one for all of it.

    The code either asserts at its top level or defines `check(candidate)`. `preamble` is trusted code that it
    builds on. Raises InputError for code that is none, or that asserts nothing of the function.

    >>> [(case.arguments, case.comparator, case.expected) for case in read("assert f(2) < 5", "f")]
    [((2,), '<', 5)]
    """
    tree, before = _parsed(source, "test code"), _parsed(preamble, "the preamble of test code")
    root = function.partition(".")[0]
    scope = Scope({function}, dict.fromkeys({root, *_rebound(before)}, UNKNOWN))
    try:
        reading = _Reading(scope)
        reading.take(_statements(tree, scope))
        plain.dumps([(case.arguments, dict(case.keywords), case.expected) for case in reading.cases])
    except (ValueError, TypeError, RecursionError):
        return (Test(source, function, preamble).case(),)
    if not reading.cases:
        raise InputError(
            f"test code asserts nothing of {function!r}, so every program would pass. Correct the task."
        )
    return tuple(replace(case, function=function) for case in reading.cases)


def _parsed(source: str, what: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(f"{what} is no Python: {error}. Correct the task.") from None


def _rebound(tree: ast.Module) -> set[str]:
    """Return the names that code may give another meaning than their builtin's."""
    nodes = list(ast.walk(tree))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= _imported(node)
    return names


def _imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the names that an import may give another meaning; those of `math` keep theirs."""
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        return set(dir(builtins)) | {"math", "isclose", "fabs"}
    kept = (
        {"math"} if isinstance(node, ast.Import) else {"isclose", "fabs"} if node.module == "math" else set()
    )
    return {
        (alias.asname or alias.name).partition(".")[0]
        for alias in node.names
        if alias.name not in kept or alias.asname is not None
    }


def _statements(tree: ast.Module, scope: Scope) -> list[ast.stmt]:
    """Return the statements that are run: those at the top, then those of `check`, if there is one."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return tree.body
    check, parameters = functions[0], functions[0].args
    only = [parameters.posonlyargs, parameters.kwonlyargs, parameters.defaults, check.decorator_list]
    if len(functions) > 1 or check.name != "check" or any(only) or parameters.vararg or parameters.kwarg:
        raise NotConstant("functions other than check(candidate)")
    top = [node for node in tree.body if node is not check]
    if top and _calls_check(top[-1], scope):
        top.pop()
    scope.candidates |= {argument.arg for argument in parameters.args}
    scope.names.update(dict.fromkeys(scope.candidates, UNKNOWN))
    if len(parameters.args) != 1 or any(scope.mentions(node) for node in top):
        raise NotConstant("functions other than check(candidate)")
    return [*top, *check.body]


def _calls_check(node: ast.stmt, scope: Scope) -> bool:
    """Tell whether a statement is check(f)."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "check":
        return False
    return len(call.args) == 1 and ast.unparse(call.args[0]) in scope.candidates and not call.keywords


@dataclass(slots=True)
class _Reading:
    """Go through test code and collect its cases; NotConstant where something does not convert."""

    scope: Scope
    cases: list[Case] = field(default_factory=list)
    _steps: int = 0

    def take(self, statements: Sequence[ast.stmt]) -> None:
        """Take in statements, one after the other."""
        for statement in statements:
            self._steps += 1
            if self._steps > MAX_STEPS or len(self.cases) > MAX_CASES:
                raise NotConstant(f"more than {MAX_CASES} assertions")
            self._take_one(statement)

    def _take_one(self, statement: ast.stmt) -> None:
        names = self.scope.names
        if isinstance(statement, ast.Assert):
            self.cases += read_claim(statement.test, self.scope)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._bind(statement.targets[0], value(statement.value, names))
        elif isinstance(statement, ast.For) and not statement.orelse:
            for item in value(statement.iter, names):
                self._bind(statement.target, item)
                self.take(statement.body)
        elif isinstance(statement, ast.With):
            self._take_raises(statement)
        elif isinstance(statement, ast.Try):
            self._take_attempt(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names.update(dict.fromkeys(_imported(statement), UNKNOWN))
        elif not isinstance(statement, ast.Pass) and not _does_nothing(statement):
            raise NotConstant(f"{type(statement).__name__} in line {statement.lineno}")

    def _bind(self, target: ast.expr, found: object) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part, item in zip(target.elts, list(found), strict=True):  # type: ignore[call-overload]
                self._bind(part, item)
        elif isinstance(target, ast.Name) and target.id not in self.scope.candidates:
            self.scope.names[target.id] = found
        else:
            raise NotConstant(f"an assignment in line {target.lineno}")

    def _take_raises(self, statement: ast.With) -> None:
        """Take in `with pytest.raises(E): f(…)`."""
        call = statement.items[0].context_expr
        if len(statement.items) > 1 or not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
            raise NotConstant(f"with in line {statement.lineno}")
        if ast.unparse(call.func) != "pytest.raises" or statement.items[0].optional_vars is not None:
            raise NotConstant(f"with in line {statement.lineno}")
        self._add_raises(statement.body, call.args[0])

    def _take_attempt(self, statement: ast.Try) -> None:
        """Take in `try: f(…); assert False` with one handler that does nothing."""
        handlers, last = statement.handlers, statement.body[-1]
        if len(handlers) != 1 or statement.orelse or statement.finalbody or not _always_fails(last):
            raise NotConstant(f"try in line {statement.lineno}")
        if handlers[0].type is None or not all(map(_does_nothing, handlers[0].body)):
            raise NotConstant(f"except in line {statement.lineno}")
        if set(_class_names(handlers[0].type)) & set(CATCH_ASSERTIONS):
            raise NotConstant(f"except in line {statement.lineno}")
        self._add_raises(statement.body[:-1], handlers[0].type)

    def _add_raises(self, body: list[ast.stmt], classes: ast.expr) -> None:
        names = _class_names(classes)
        if len(body) != 1 or not isinstance(body[0], ast.Expr) or any(n in self.scope.names for n in names):
            raise NotConstant(f"more than a call in line {classes.lineno}")
        asked = read_call(body[0].value, self.scope)
        if asked.view or not all(hasattr(builtins, name) for name in names):
            raise NotConstant(f"more than a call in line {classes.lineno}")
        self.cases.append(asked.case("raises", list(names)))


def _class_names(node: ast.expr) -> tuple[str, ...]:
    return tuple(ast.unparse(part) for part in (node.elts if isinstance(node, ast.Tuple) else [node]))


def _always_fails(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    return isinstance(statement, ast.Raise) and ast.unparse(statement).startswith("raise AssertionError")


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and bool(statement.test.value)
    nothing = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant | ast.Name)
    return nothing or isinstance(statement, ast.Pass)
