"""Rows with Python test code: HumanEval, MBPP, and EvalPlus's editions of both."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator

from posttrain.domains.code_row import Row, parted
from posttrain.domains.problem import Problem
from posttrain.errors import InputError
from posttrain.protocols import Case
from posttrain.sandbox.verdict import asserts

_ARROW = re.compile(r"\s*(?:==|=>|->|➞|→|\breturns?\b|\bshould return\b|#\s*=>|(?<![=<>!])=(?!=))\s*")
TOLERANCE = "float:1e-6"
"""How EvalPlus compares floats."""


def human_eval(row: Row, num_first: int | None) -> Problem:
    """Return the problem of a row: task_id, prompt, entry_point, test, canonical_solution.

    The examples of the docstring become visible cases; what else the prompt defines becomes the preamble.
    With `num_first`, so many first tests are visible instead.
    """
    prompt, function = row.text("prompt"), row.text("entry_point")
    preamble, stub = _halves(row, prompt, function)
    body = row.text("canonical_solution", default="")
    problem = Problem(
        name=row.name("task_id"),
        statement=f"Complete this function:\n{stub.text}",
        function=function,
        visible=(),
        hidden=(),
        preamble=preamble,
        solution=stub.header + body if body else "",
    )
    shown = tuple(_example_cases(stub.examples, function, preamble)) if num_first is None else ()
    test = row.text("test")
    tests = table_cases(test, function) or row.cases(test, function, prompt, "test")
    return parted(problem, shown, tests, num_first or 0, row, "test")


def mbpp(row: Row, num_first: int | None) -> Problem:
    """Return the problem of a row: task_id, text or prompt, code, test_list, test_setup_code.

    The first test is visible unless `num_first` says otherwise: without it, nobody knows the function's
    name. EvalPlus's `test` and MBPP's `challenge_test_list` add hidden tests.
    """
    listed = row.texts("test_list")
    if not listed:
        raise row.wrong("holds no test", "test_list", "Expected a list of assertions")
    preamble = "\n".join([row.text("test_setup_code", default=""), *row.texts("test_imports")]).strip()
    code = row.text("code", "canonical_solution", default="")
    function = _called(row, listed[0], code)
    tests = tuple(case for one in listed for case in row.cases(one, function, preamble, "test_list"))
    for one in row.texts("challenge_test_list"):
        tests += row.cases(one, function, preamble, "challenge_test_list")
    if more := row.text("test", default=""):
        tests += table_cases(more, function) or row.cases(more, function, preamble, "test")
    statement = row.text("text", "prompt")
    problem = Problem(row.name("task_id"), statement, function, (), (), preamble, code)
    return parted(problem, (), tests, 1 if num_first is None else num_first, row, "test_list")


def table_cases(test: str, function: str) -> tuple[Case, ...]:
    """Return the cases of EvalPlus's test code, which lists `inputs` and `results`; () for other code."""
    try:
        tree = ast.parse(test)
        found = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in ("inputs", "results")
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    inputs, results = found.get("inputs"), found.get("results")
    if not isinstance(inputs, list) or not isinstance(results, list) or len(inputs) != len(results):
        return ()
    if not all(isinstance(arguments, list | tuple) for arguments in inputs):
        return ()
    return tuple(
        Case(result, function, tuple(arguments), comparator=TOLERANCE if _has_float(result) else "==")
        for arguments, result in zip(inputs, results, strict=True)
    )


def _has_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_has_float, value))
    return isinstance(value, float)


class _Stub:
    """The function that a prompt leaves open: its text without examples, its header, its examples."""

    def __init__(self, prompt: str, node: ast.FunctionDef) -> None:
        lines = prompt.splitlines(keepends=True)
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        docstring = ast.get_docstring(node, clean=False) is not None
        start = node.body[0].lineno if docstring else len(lines) + 1
        self.header = "".join(lines[first - 1 : start - 1])
        self.before = "".join(lines[: first - 1]).strip()
        self.examples: list[doctest.Example] = []
        self.text = "".join(lines[first - 1 :])
        if docstring:
            # The source's own text: an escape in it is one in the example too.
            said = ast.get_source_segment(prompt, node.body[0]) or ""
            quotes = said[-3:] if said.endswith(('"""', "'''")) else said[-1:]
            inner = said[: len(said) - len(quotes)]
            self.examples = doctest.DocTestParser().get_examples(inner)
            self.examples += _claims(inner, node.name)
            kept = _without(inner, self.examples)
            self.text = self.text.replace(said, kept.rstrip() + "\n    " + quotes, 1)


def _halves(row: Row, prompt: str, function: str) -> tuple[str, _Stub]:
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise row.wrong(f"is no Python: {error}", "prompt") from None
    nodes = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if not nodes:
        raise row.wrong(f"does not define {function!r}", "prompt", "entry_point names the open function")
    try:
        stub = _Stub(prompt, nodes[-1])
    except ValueError as error:
        raise row.wrong(f"has examples that cannot be read: {error}", "prompt") from None
    return stub.before, stub


def _without(text: str, examples: list[doctest.Example]) -> str:
    """Return a text without its examples: their lines and those of what they give."""
    lines, dropped = text.splitlines(keepends=True), set[int]()
    for example in examples:
        alone = example.indent < 0  # call and result on one line
        count = 1 if alone else example.source.count("\n") + example.want.count("\n")
        dropped |= set(range(example.lineno, example.lineno + count))
    return "".join(line for number, line in enumerate(lines) if number not in dropped)


def _claims(text: str, function: str) -> list[doctest.Example]:
    """Return the examples that stand on a line each, such as `f(1) == 2` or `f(1) ➞ 2`."""
    found = []
    for number, line in enumerate(text.splitlines()):
        before, call, rest = line.partition(f"{function}(")
        parts = _ARROW.split(call + rest, maxsplit=1) if call and ">>>" not in before else []
        if len(parts) == 2 and _is_call(parts[0].strip()) and _is_plain(want := parts[1].strip(" .;,\n")):
            found.append(doctest.Example(parts[0].strip(), f"{want}\n", lineno=number, indent=-1))
    return found


def _is_call(text: str) -> bool:
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Call)
    except (SyntaxError, ValueError):
        return False


def _is_plain(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError):
        return False
    return True


def _example_cases(examples: list[doctest.Example], function: str, preamble: str) -> Iterator[Case]:
    """Give the cases of examples that are one call with a plain result."""
    for example in examples:
        if not example.want:
            continue
        try:
            cases = asserts.read(
                f"assert ({example.source.strip()}) == ({example.want.strip()})", function, preamble
            )
        except InputError:
            continue
        yield from (case for case in cases if case.comparator != "asserts")


def _called(row: Row, test: str, code: str) -> str:
    """Return the function that a test is about: one that the code defines, or the first that it calls."""
    try:
        calls = [node.func for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Call)]
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise row.wrong(f"is no Python: {error}", "test_list") from None
    names = [call.id for call in calls if isinstance(call, ast.Name)]
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    known = [name for name in names if name in defined] or ([] if defined else names)
    if not known:
        raise row.wrong("calls no function that `code` defines", "test_list")
    return known[0]
