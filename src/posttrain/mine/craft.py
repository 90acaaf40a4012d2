"""From a function with doctests to a problem: its statement, its cases, and a self-contained solution."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from posttrain.domains.mined_rows import LEVELS
from posttrain.domains.problem import Problem
from posttrain.mine import boxes, cases, choose, examples, inline, mutate
from posttrain.mine.examples import Example, Snippet
from posttrain.mine.sources import Found, Module, Sources, bound_names
from posttrain.protocols import Case, Sandbox

MAX_LINES = 60
MAX_STATEMENT = 6_000
MAX_MUTANTS = 200
LEVEL_LINES = (4, 10, 20)
"""A solution of more lines than these is of level 1, 2, 3."""


class Left(Exception):
    """A function is left out: the reason, one of few, and what exactly."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Gold:
    """A function's own source, and all that its solution and its examples stand on."""

    found: Found
    source: str
    needs: inline.Needs

    def preamble(self, *, evaluates: bool) -> str:
        """Return what goes before every candidate."""
        parts = (self.needs.source(), cases.EVALUATOR if evaluates else "")
        return "\n".join(part for part in parts if part)

    def program(self) -> str:
        """Return the whole of it as one program."""
        return f"{self.needs.source()}\n{self.source}"

    @property
    def level(self) -> int:
        """Return the difficulty: how long the solution is, one more where it stands on many helpers."""
        level = sum(len(self.source.splitlines()) > lines for lines in LEVEL_LINES)
        return min(LEVELS - 1, level + (self.needs.num_helpers > 2))


def gold(sources: Sources, found: Found, snippets: Sequence[Example]) -> Gold:
    """Return a function's solution with what it needs; Left where that cannot be had."""
    bare = inline.without_annotations(inline.without_docstrings(found.node))
    source = ast.unparse(bare)
    if len(source.splitlines()) > MAX_LINES:
        raise Left("too long", f"{len(source.splitlines())} lines")
    texts = [f"{example.snippet.setup}\n{example.snippet.expression}" for example in snippets]
    needed = inline.free_names([bare])
    asked = [name for text in texts for name in inline.free_names(ast.parse(text).body)]
    roots = [(name, found.module) for name in needed if name != found.name]
    roots += [
        root for name in dict.fromkeys(asked) if name != found.name for root in _homes(sources, found, name)
    ]
    try:
        needs = inline.collect(sources, found.module, found.name, roots)
    except inline.CannotInline as error:
        raise Left("needs what cannot be taken over", str(error)) from None
    return Gold(found, source, needs)


def _homes(sources: Sources, found: Found, name: str) -> list[tuple[str, Module]]:
    """Return where an example has a name from: the function's module, else the first that defines it."""
    if name in found.module.bindings:
        return [(name, found.module)]
    if hasattr(builtins, name):
        return []
    kinds = ast.FunctionDef | ast.ClassDef
    homes = (module for module in sources.modules.values() if isinstance(module.bindings.get(name), kinds))
    return [(name, module) for module in homes][:1]


async def craft(sandbox: Sandbox, sources: Sources, found: Found) -> tuple[Problem, Gold]:
    """Return the problem of a function, not proven yet; Left where there is none."""
    read = _examples(sources, found)
    own = gold(sources, found, read)
    outcomes = await boxes.survey(sandbox, own.program(), [example.snippet for example in read])
    right = [(e.snippet, o) for e, o in zip(read, outcomes, strict=True) if _holds(e, o)]
    if not right:
        raise Left(*_why(read, outcomes))
    known = bound_by(own.needs)
    shown = _cases([s for s, _ in right], [o for _, o in right], own, known)
    if not shown:
        raise Left("answers that are no plain data", right[0][1].kind)
    tried = _mutants([snippet for snippet, _ in right], found.name)
    changed = await boxes.survey(sandbox, own.program(), tried) if tried else []
    documented = [not o.problem and (not o.raised or o.raised[0] in found.docstring) for o in changed]
    kept = [pair for pair, keep in zip(zip(tried, changed, strict=True), documented, strict=True) if keep]
    more = _cases([s for s, _ in kept], [o for _, o in kept], own, known)
    return _problem(own, sources, *choose.split(shown, more)), own


def _examples(sources: Sources, found: Found) -> tuple[Example, ...]:
    package = found.module.name.partition(".")[0]
    try:
        read = examples.read(found.docstring, found.name, package)
    except ValueError as error:
        raise Left("its doctest is malformed", str(error)) from None
    if not read:
        raise Left("no example calls it and shows a value")
    return read


def _holds(example: Example, outcome: boxes.Outcome) -> bool:
    """Tell whether the real function does what its documentation shows."""
    if outcome.problem:
        return False
    if outcome.raised:
        return example.exception is not None and outcome.raised[0] in example.exception.partition(":")[0]
    if example.exception is not None:
        return False
    if example.is_printed:
        return example.agrees(str(outcome.value))
    return example.agrees(outcome.text) or example.means(outcome.value)


def _why(read: Sequence[Example], outcomes: Sequence[boxes.Outcome]) -> tuple[str, str]:
    """Return why no example of a function will do: what is wrong with the first."""
    first, example = outcomes[0], read[0]
    if first.problem.startswith(("not plain data", "not deterministic", "too", "ends", "its")):
        return first.problem, example.snippet.expression
    if first.raised:
        return "its example raises here", f"{first.raised[0]}: {first.text}"
    return "its example shows something else here", f"{example.snippet.expression}: {first.text[:200]}"


def _mutants(snippets: Sequence[Snippet], own: str) -> list[Snippet]:
    each = max(8, MAX_MUTANTS // len(snippets))
    found = dict.fromkeys(mutant for snippet in snippets for mutant in mutate.mutants(snippet, own, each))
    return list(found)[:MAX_MUTANTS]


def _cases(
    snippets: Sequence[Snippet], outcomes: Sequence[boxes.Outcome], own: Gold, known: Sequence[str]
) -> list[Case]:
    made = [
        cases.case_of(snippet, outcome, own.found.name, known, hidden=True)
        for snippet, outcome in zip(snippets, outcomes, strict=True)
    ]
    return [case for case in made if case is not None]


def bound_by(needs: inline.Needs) -> list[str]:
    """Return the names that a preamble defines."""
    tree = ast.parse(needs.source())
    return [name for statement in tree.body for name in bound_names(statement)]


def _problem(own: Gold, sources: Sources, visible: tuple[Case, ...], hidden: tuple[Case, ...]) -> Problem:
    if len(hidden) < choose.MIN_HIDDEN:
        raise Left("too few hidden tests", f"{len(hidden)}, {choose.MIN_HIDDEN} are the least")
    if len({cases.answer(case) for case in hidden}) < 2:
        raise Left("all its answers are the same")
    evaluates = any(case.function == cases.EVALUATE for case in (*visible, *hidden))
    statement = _statement(own)
    if len(statement) > MAX_STATEMENT:
        raise Left("too long", f"a statement of {len(statement)} characters")
    package = sources.package.name
    return Problem(
        f"{package}/{own.found.where}", statement, own.found.name, visible, hidden,
        own.preamble(evaluates=evaluates), own.source,
    )  # fmt: skip


def _statement(own: Gold) -> str:
    node = own.found.node
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    parts = [
        f"Write the Python function `{node.name}({ast.unparse(node.args)}){returns}`.",
        examples.prose(own.found.docstring),
    ]
    return "\n\n".join(part for part in parts if part)
