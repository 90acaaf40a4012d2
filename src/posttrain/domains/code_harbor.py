"""Problems as directories in Harbor's layout, with our `hidden/` beside its `tests/`; read and written.

instruction.md           the statement
task.toml                Harbor's settings; ours stand in [metadata.posttrain]
environment/Dockerfile   what Harbor builds
tests/                   test.sh (Harbor's verifier), check.py, preamble.py, visible.jsonl
hidden/cases.jsonl       hidden cases: no other reader of the layout looks at them
solution/                solution.py and solve.sh, where there is a solution
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from posttrain.domains.code_prompt import case_as_text
from posttrain.domains.problem import Problem, case_of_json, case_to_json
from posttrain.errors import InputError, RowError
from posttrain.protocols import Case

SETTINGS, STATEMENT = "task.toml", "instruction.md"
VISIBLE, HIDDEN = "tests/visible.jsonl", "hidden/cases.jsonl"
PREAMBLE, SOLUTION = "tests/preamble.py", "solution/solution.py"
VERSION = "1.0"
"""Harbor's version of task.toml."""
_DOCKERFILE = "FROM python:3.12-slim\nWORKDIR /app\n"
_SOLVE = "#!/bin/bash\ncp /solution/solution.py /app/solution.py\n"
_TEST = """#!/bin/bash
# The visible tests of /app/solution.py; hidden ones are judged elsewhere.
mkdir -p /logs/verifier
{ cat /tests/preamble.py; echo; cat /app/solution.py; } > /tmp/program.py
if cd /tmp && python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt
else echo 0 > /logs/verifier/reward.txt; fi
"""
_CHECK_PROGRAM = """import subprocess, sys

for given, wanted in {pairs!r}:
    done = subprocess.run([sys.executable, "/tmp/program.py"], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout.split() == wanted.split(), (given, done.stdout)
"""


def is_folder_of_tasks(folder: Path) -> bool:
    """Tell whether a folder is a task, or holds any."""
    return (folder / SETTINGS).is_file() or any(folder.glob(f"*/{SETTINGS}"))


def task_folders(folder: Path) -> list[Path]:
    """Return the tasks in a folder, by name; the folder itself where it is one."""
    if (folder / SETTINGS).is_file():
        return [folder]
    return sorted(path.parent for path in folder.glob(f"*/{SETTINGS}"))


def read_folder(folder: Path) -> Iterator[Problem]:
    """Give the problems in a folder; InputError names the file that is wrong."""
    return map(read_problem, task_folders(folder))


def read_problem(folder: Path) -> Problem:
    """Return the problem that a directory holds."""
    settings = read_settings(folder)
    if not (folder / HIDDEN).is_file():
        raise InputError(
            f"{folder} has no {HIDDEN}, so nothing but a test script judges it. Use the domain 'harbor' for "
            "directories with scripts only."
        )
    own = _own(settings, folder)
    function = own.get("function") or None
    return Problem(
        name=str(own.get("name") or folder.name),
        statement=read_text(folder / STATEMENT),
        function=function,
        visible=_read_cases(folder / VISIBLE, hidden=False),
        hidden=_read_cases(folder / HIDDEN, hidden=True),
        preamble=_optional(folder / PREAMBLE),
        solution=_optional(folder / SOLUTION),
        language=str(own.get("language", "python")),
    )


def write_problem(problem: Problem, folder: Path) -> None:
    """Write a problem as a new directory; InputError where there is something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already. Choose a new folder, or remove it.")
    own = {"name": problem.name, "function": problem.function or "", "language": problem.language}
    settings = {
        "version": VERSION,
        "metadata": {"category": "programming", "posttrain": own},
        "verifier": {"timeout_sec": 120.0},
        "agent": {"timeout_sec": 600.0},
        "environment": {"build_timeout_sec": 600.0},
    }
    texts = {
        SETTINGS: tomli_w.dumps(settings),
        STATEMENT: problem.statement,
        "environment/Dockerfile": _DOCKERFILE,
        "tests/test.sh": _TEST,
        "tests/check.py": _check(problem),
        PREAMBLE: problem.preamble,
        VISIBLE: _lines(problem.visible),
        HIDDEN: _lines(problem.hidden),
    }
    if problem.solution:
        texts |= {SOLUTION: problem.solution, "solution/solve.sh": _SOLVE}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))


def read_settings(folder: Path) -> dict[str, Any]:
    """Return what task.toml says; InputError where it cannot be read."""
    try:
        return tomllib.loads(read_text(folder / SETTINGS))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{folder / SETTINGS} is not TOML: {error}. Correct it.") from None


def read_text(path: Path) -> str:
    """Return a file's text as it stands; InputError where it is missing or no UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file, and a task needs it. Add it, or remove the task.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text: {error}. Correct it.") from None


def _own(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    metadata = settings.get("metadata", {})
    own = metadata.get("posttrain", {}) if isinstance(metadata, dict) else None
    if not isinstance(own, dict):
        raise InputError(f"{folder / SETTINGS}: metadata.posttrain is no table. Correct it.")
    return own


def _optional(path: Path) -> str:
    return read_text(path) if path.is_file() else ""


def _lines(cases: Sequence[Case]) -> str:
    return "".join(json.dumps(case_to_json(case)) + "\n" for case in cases)


def _read_cases(path: Path, *, hidden: bool) -> tuple[Case, ...]:
    cases: list[Case] = []
    for number, line in enumerate(_optional(path).splitlines(), 1):
        try:
            cases.append(case_of_json(json.loads(line), hidden=hidden))
        except KeyError as error:
            raise RowError("is missing", path=path, row=number, field=str(error.args[0])) from None
        except (ValueError, TypeError, RecursionError) as error:
            raise RowError(f"is no case: {error}", path=path, row=number) from None
    return tuple(cases)


def _check(problem: Problem) -> str:
    """Return a program that checks the visible cases in Harbor's container."""
    if problem.function is None:
        pairs = [(case.stdin, _bytes(case.expected)) for case in problem.visible]
        return _CHECK_PROGRAM.format(pairs=pairs)
    tests = "\n".join(case_as_text(case) for case in problem.visible)
    return f'exec(open("/tmp/program.py").read())\n\n{tests}\n'


def _bytes(expected: object) -> bytes:
    return expected if isinstance(expected, bytes) else str(expected).encode("utf-8", "surrogatepass")
