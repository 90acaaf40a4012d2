"""Rows of programming contests: LiveCodeBench and APPS, programs with input and output, or functions.

LiveCodeBench packs its private tests with pickle. Nothing is unpickled here: only a pickle that is a single
text is read, opcode by opcode; every other one is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import pickletools
import zlib
from typing import Any

from posttrain.domains.code_row import Row, parted
from posttrain.domains.problem import Problem
from posttrain.protocols import Case

COMPARATOR = "float:1e-6"
MAX_UNPACKED_BYTES = 256 * 2**20
_TEXT_OPCODES = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")
_OTHER_OPCODES = ("PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP")


def live_code_bench(row: Row, num_first: int | None) -> Problem:
    """Return the problem of a row: question_content, public_test_cases, private_test_cases, metadata.

    Public tests are visible, private ones hidden; with `num_first`, so many first public ones are visible.
    """
    metadata = row.json("metadata", "{}")
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    starter = row.text("starter_code", default="")
    function = _function(name, starter)
    public = _cases(row, row.json("public_test_cases", "[]"), function, "public_test_cases")
    private = _cases(row, _private(row), function, "private_test_cases")
    problem = Problem(
        row.name("question_id", "question_title"),
        _statement(row.text("question_content"), starter),
        function,
        (),
        (),
    )
    if num_first is None:
        return parted(problem, public, private or public, 0, row, "private_test_cases")
    return parted(problem, (), public + private, num_first, row, "private_test_cases")


def apps(row: Row, num_first: int | None) -> Problem:
    """Return the problem of a row: question, input_output (inputs, outputs, fn_name), solutions.

    The first test is visible unless `num_first` says otherwise.
    """
    tests = row.json("input_output")
    if not isinstance(tests, dict):
        raise row.wrong(f"is a JSON {type(tests).__name__}, expected an object", "input_output")
    inputs, outputs = tests.get("inputs"), tests.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise row.wrong("needs lists `inputs` and `outputs` of one length", "input_output")
    starter = row.text("starter_code", default="")
    function = _function(tests.get("fn_name"), starter)
    cases = tuple(_apps_case(row, function, *pair) for pair in zip(inputs, outputs, strict=True))
    solutions = row.json("solutions", "[]")
    gold = solutions[0] if isinstance(solutions, list) and solutions else ""
    name = row.name("problem_id", "task_id", "id")
    problem = Problem(name, _statement(row.text("question"), starter), function, (), (), solution=str(gold))
    return parted(problem, (), cases, 1 if num_first is None else num_first, row, "input_output")


def text_of_pickle(packed: bytes) -> str:
    """Return the text that a pickle is; ValueError for one that is anything else. Nothing is executed."""
    found: list[str] = []
    for opcode, argument, _ in pickletools.genops(packed):
        if opcode.name in _TEXT_OPCODES:
            found.append(str(argument))
        elif opcode.name not in _OTHER_OPCODES:
            raise ValueError(f"it holds more than a text (opcode {opcode.name})")
    if len(found) != 1:
        raise ValueError(f"it holds {len(found)} texts, expected one")
    return found[0]


def _private(row: Row) -> Any:
    """Return the private tests: JSON, or JSON pickled, compressed and encoded."""
    field = "private_test_cases"
    text = row.text(field)
    if text.lstrip().startswith("["):
        return row.json(field)
    try:
        inflate = zlib.decompressobj()
        packed = inflate.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED_BYTES)
        if inflate.unconsumed_tail:
            raise ValueError(f"more than {MAX_UNPACKED_BYTES} bytes unpacked")
        return json.loads(text_of_pickle(packed))
    except (ValueError, zlib.error, binascii.Error, RecursionError) as error:
        hint = "It is JSON, or base64 of zlib of a pickled JSON text; nothing else is unpickled"
        raise row.wrong(f"cannot be unpacked: {error}", field, hint) from None


def _function(name: object, starter: str) -> str | None:
    if not isinstance(name, str) or not name:
        return None
    return f"Solution().{name}" if "class Solution" in starter or not starter.strip() else name


def _statement(question: str, starter: str) -> str:
    return f"{question.strip()}\n\nBegin with:\n{starter.strip()}" if starter.strip() else question


def _cases(row: Row, tests: Any, function: str | None, field: str) -> tuple[Case, ...]:
    if not isinstance(tests, list):
        raise row.wrong(f"is a JSON {type(tests).__name__}, expected a list", field)
    return tuple(_case(row, test, function, field) for test in tests)


def _case(row: Row, test: Any, function: str | None, field: str) -> Case:
    given, wanted = (test.get("input"), test.get("output")) if isinstance(test, dict) else (None, None)
    if not isinstance(given, str) or not isinstance(wanted, str):
        raise row.wrong("has a test without texts `input` and `output`", field)
    if function is None:
        return Case(wanted, stdin=given.encode(), comparator=COMPARATOR)
    try:
        arguments = tuple(json.loads(line) for line in given.splitlines() if line.strip())
        return Case(json.loads(wanted), function, arguments, comparator=COMPARATOR)
    except ValueError as error:
        raise row.wrong(f"has a call whose values are not JSON: {error}", field) from None


def _apps_case(row: Row, function: str | None, given: Any, wanted: Any) -> Case:
    if function is None:
        return Case(_lines(row, wanted), stdin=_lines(row, given).encode(), comparator=COMPARATOR)
    if not isinstance(given, list):
        raise row.wrong("has `inputs` that are no lists of arguments", "input_output")
    # In APPS a result may stand for itself or as the only item of a list.
    choices = [wanted, wanted[0]] if isinstance(wanted, list) and len(wanted) == 1 else [wanted]
    return Case(choices, function, tuple(given), comparator="in")


def _lines(row: Row, text: Any) -> str:
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "\n".join(text)
    if not isinstance(text, str):
        raise row.wrong("has inputs or outputs that are no text", "input_output")
    return text
