"""Modules as syntax trees: which functions they define, and where each of their names comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from posttrain.mine.package import Package


@dataclass(frozen=True, slots=True)
class Module:
    """A module's name, source and tree, and the statement that binds each of its top names."""

    name: str
    is_package: bool
    source: str
    tree: ast.Module
    bindings: Mapping[str, ast.stmt]


@dataclass(frozen=True, slots=True)
class Sources:
    """All modules of a package, and the files that could not be read, with the reason."""

    package: Package
    modules: Mapping[str, Module]
    unread: Mapping[str, str]

    def is_own(self, name: str) -> bool:
        """Tell whether a module's name is of this package, so that its text has to be taken over."""
        return name in self.modules or any(known.startswith(f"{name}.") for known in self.modules)


def read(package: Package) -> Sources:
    """Return the package's modules; files that are no Python are told in `unread`."""
    modules, unread = {}, {}
    for name, path in package.modules.items():
        try:
            modules[name] = _module(name, path)
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            unread[name] = f"{type(error).__name__}: {error}"
    return Sources(package, modules, unread)


def _module(name: str, path: Path) -> Module:
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    bindings: dict[str, ast.stmt] = {}
    for statement in tree.body:
        for bound in bound_names(statement):
            bindings[bound] = _merged(bindings.get(bound), statement)
    return Module(name, path.name == "__init__.py", source, tree, bindings)


def _merged(earlier: ast.stmt | None, statement: ast.stmt) -> ast.stmt:
    """Return which of two statements gives a name its meaning: the later, but for fallbacks.

    `try: from _fast import f` after `def f` replaces it by something in C; the definition is kept.
    """
    if isinstance(earlier, ast.FunctionDef | ast.ClassDef) and isinstance(statement, ast.Try):
        return earlier
    return statement


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds where it stands."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        for field in ("body", "orelse", "finalbody"):
            for inner in getattr(statement, field, ()):
                yield from bound_names(inner)
        for handler in getattr(statement, "handlers", ()):
            for inner in handler.body:
                yield from bound_names(inner)
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


@dataclass(frozen=True, slots=True)
class Found:
    """A function at a module's top."""

    module: Module
    node: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def where(self) -> str:
        return f"{self.module.name}.{self.node.name}"

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.node) or ""


def functions(sources: Sources) -> Iterator[Found]:
    """Yield every function at the top of a module, in order; of one name the last definition."""
    for module in sources.modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and module.bindings.get(node.name) is node:
                yield Found(module, node)
