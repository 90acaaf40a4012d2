"""What a function needs from its package, as one self-contained text: imports, constants and helpers.

Names are followed through the package's own modules by their syntax; the standard library is imported.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from posttrain.mine.package import STDLIB
from posttrain.mine.sources import Module, Sources, bound_names

MAX_PARTS = 60


class CannotInline(Exception):
    """A name cannot be had without the package itself; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What stands before a function: lines of imports, then definitions, each as source."""

    imports: tuple[str, ...]
    definitions: tuple[str, ...]
    num_helpers: int

    def source(self) -> str:
        """Return all of it as a program's beginning, or '' for nothing."""
        return "\n".join((*self.imports, *self.definitions))


@dataclass(slots=True)
class _Collecting:
    """Names followed so far, and what they mean."""

    sources: Sources
    own: str
    home: Module
    begun: set[int] = field(default_factory=set)
    parts: list[ast.stmt] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    meaning: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, module: Module) -> None:
        """Take in what a module means by a name; builtins and the function itself need nothing."""
        if name == self.own and module is self.home:
            return
        statement = module.bindings.get(name)
        if statement is None:
            if not hasattr(builtins, name) and name not in ("__name__", "__file__"):
                raise CannotInline(f"{name} is defined nowhere in {module.name}")
            return
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._take_import(name, statement, module)
        else:
            self._take_part(name, statement, module)

    def _take_import(self, name: str, statement: ast.Import | ast.ImportFrom, module: Module) -> None:
        alias = next(a for a in statement.names if (a.asname or a.name).partition(".")[0] == name)
        target = _absolute(statement, module) if isinstance(statement, ast.ImportFrom) else alias.name
        if self.sources.package.name == STDLIB or not self.sources.is_own(target):
            if target.partition(".")[0] not in sys.stdlib_module_names:
                raise CannotInline(f"{name} comes from {target}, which is no standard module")
            self._mean(name, f"{target}:{alias.name}")
            self.imports[name] = _import_line(statement, alias, target)
            return
        if isinstance(statement, ast.Import) or target not in self.sources.modules:
            raise CannotInline(f"{name} is a module of the package")
        if f"{target}.{alias.name}" in self.sources.modules:
            raise CannotInline(f"{name} is a module of the package")
        if alias.asname not in (None, alias.name):
            raise CannotInline(f"{alias.name} is imported as {name}")
        if alias.name == self.own and target == self.home.name:
            return
        self.take(alias.name, self.sources.modules[target])

    def _take_part(self, name: str, statement: ast.stmt, module: Module) -> None:
        names = tuple(dict.fromkeys(bound_names(statement)))
        if self.own in names:
            raise CannotInline(f"{name} is bound together with {self.own}")
        for each in names:
            self._mean(each, f"{module.name}:{statement.lineno}")
        if id(statement) in self.begun:
            return
        self.begun.add(id(statement))
        if len(self.begun) > MAX_PARTS:
            raise CannotInline(f"it needs more than {MAX_PARTS} other definitions")
        for needed in free_names([statement]):
            if needed not in names:
                self.take(needed, module)
        # After what it needs: decorators, defaults and bases are looked up when it is defined.
        self.parts.append(statement)

    def _mean(self, name: str, meaning: str) -> None:
        if name == self.own or self.meaning.setdefault(name, meaning) != meaning:
            raise CannotInline(f"{name} means two things")


def collect(sources: Sources, home: Module, own: str, roots: Iterable[tuple[str, Module]]) -> Needs:
    """Return what these names of these modules need; CannotInline where that is the package itself."""
    collecting = _Collecting(sources, own, home)
    for name, module in roots:
        collecting.take(name, module)
    imports = tuple(sorted(dict.fromkeys(collecting.imports.values())))
    parts = collecting.parts
    definitions = tuple(ast.unparse(without_annotations(without_docstrings(part))) for part in parts)
    num_helpers = sum(isinstance(part, ast.FunctionDef | ast.ClassDef) for part in parts)
    return Needs(imports, definitions, num_helpers)


def _absolute(statement: ast.ImportFrom, module: Module) -> str:
    if not statement.level:
        return statement.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - statement.level + module.is_package]
    return ".".join([*kept, *([statement.module] if statement.module else [])])


def _import_line(statement: ast.Import | ast.ImportFrom, alias: ast.alias, target: str) -> str:
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(target, [alias], 0))


def without_docstrings(node: ast.stmt) -> ast.stmt:
    """Return a copy of a definition without its docstrings."""
    copy = ast.parse(ast.unparse(node)).body[0]
    for part in ast.walk(copy):
        if isinstance(part, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and ast.get_docstring(
            part
        ):
            part.body = part.body[1:] or [ast.Pass()]
    return copy


def free_names(statements: Iterable[ast.stmt]) -> list[str]:
    """Return the global names that statements read and do not bind; annotations do not count."""
    text = "\n".join(ast.unparse(without_annotations(statement)) for statement in statements)
    top = symtable.symtable(text, "source", "exec")
    bound = {
        symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    return [name for name in dict.fromkeys(_read_globals(top)) if name not in bound]


def _read_globals(table: symtable.SymbolTable) -> Iterator[str]:
    is_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_top or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _read_globals(inner)


def without_annotations(node: ast.stmt) -> ast.stmt:
    """Return a copy of a statement whose functions tell no types."""
    copy = ast.parse(ast.unparse(node)).body[0]
    for part in ast.walk(copy):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            part.returns = None
        elif isinstance(part, ast.arg):
            part.annotation = None
    return copy
