"""What CONTRIBUTING.md asks of every module and can be counted: lengths, names, docstrings."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "posttrain"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_MODULE_LINES = 300
MAX_FUNCTION_LINES = 40
BANNED = ("utils", "util", "helpers", "helper", "manager", "base", "common", "misc", "info")


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_there_are_modules_to_look_at() -> None:
    assert SOURCE / "types.py" in MODULES


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_short_well_named_and_says_what_it_is(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= MAX_MODULE_LINES, "split the module"
    assert path.stem not in BANNED, "name the module after what lives in it"
    assert not source.strip() or ast.get_docstring(ast.parse(source)), "start with a docstring"
    # The loops in train/ read best in one piece.
    if path.relative_to(SOURCE).parts[0] != "train":
        long = [f"{f.name}: {length(f)} lines" for f in functions(path) if length(f) > MAX_FUNCTION_LINES]
        assert long == []
