"""Constant expressions come to what Python makes of them; everything else is refused, at little cost."""

import ast
import base64

import pytest

from posttrain.rewards.integrity.fold import Folder, NotConstant


def folded(text: str, program: str = "") -> object:
    return Folder(ast.parse(program) if program else None).value(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    "text",
    [
        "(1 + 2) * 3 - 2 ** 10", "'ab' + 'c' * 3", "''.join(chr(c) for c in [104, 105])",
        "bytes(b ^ 7 for b in [15, 14]).decode()", "'gnirts'[::-1]", "[1, (2, 3), {4: 5}]",
        "int.from_bytes(b'ab', 'big')", "'a,b'.split(',')", "{k: v for k, v in [(1, 2)]}", "f'{1 + 1}x'",
        "sorted([3, 1])", "-(~5)", "'%s'.replace('%s', 'x')", "dict(zip('ab', range(2)))",
    ],
)  # fmt: skip
def test_a_constant_expression_comes_to_what_python_makes_of_it(text: str) -> None:
    assert folded(text) == eval(text)


def test_what_is_imported_or_bound_once_is_followed() -> None:
    code = base64.b64encode(b"[1, 2]").decode()
    program = f"from base64 import b64decode as d\nimport ast\nA = {code!r}\nB = d(A)\nC = 1\nC = 2"
    assert folded("ast.literal_eval(B.decode())", program) == [1, 2]
    with pytest.raises(NotConstant):
        folded("C", program)


@pytest.mark.parametrize(
    "text",
    [
        "x", "f(1)", "open('/etc/passwd').read()", "().__class__.__bases__", "__import__('os')", "1 / 0",
        "[].append(1)", "'a'.format(1)", "eval('x')", "[y for y in [1] if y]", "'%*d' % (10**9, 1)",
    ],
)  # fmt: skip
def test_what_depends_on_anything_else_is_no_constant(text: str) -> None:
    with pytest.raises(NotConstant):
        folded(text)


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9", "'a' * 10 ** 12", "1 << 10 ** 12", "range(10 ** 12)", "bytes(10 ** 12)",
        "[[0] * 1000] * 10 ** 9", "(2 ** 60000) * (2 ** 60000)", "'a'.replace('', 'b' * 99999)",
    ],
)  # fmt: skip
def test_what_would_grow_without_bound_is_no_constant(text: str) -> None:
    with pytest.raises(NotConstant):
        folded(text)


def test_a_docstring_is_a_constant_of_its_function() -> None:
    assert folded("f.__doc__", 'def f():\n    "told"') == "told"
