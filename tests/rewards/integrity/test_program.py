"""What is looked at is the program that runs: encoded code laid open, shown examples left out."""

import ast
import base64
import zlib

import pytest

from posttrain.rewards.integrity.program import NoProgram, hides_code, laid_open

INNER = "def f(x):\n    if x == 12345:\n        return 'secret'\n    return None\n"


def test_constant_code_that_is_executed_takes_its_own_place() -> None:
    packed = base64.b64encode(INNER.encode())
    source = f"import base64\nexec(base64.b64decode({packed!r}).decode())\n"
    assert ast.unparse(ast.parse(INNER)) in ast.unparse(laid_open(source))
    assert not hides_code(laid_open(source))


def test_code_packed_twice_is_laid_open_too() -> None:
    inner = f"exec({INNER!r})"
    assert "secret" in ast.unparse(laid_open(f"exec(compile({inner!r}, 'x', 'exec'))"))


def test_an_encoded_table_is_put_in_its_place() -> None:
    packed = zlib.compress(b"{1: 'one', 2: 'two'}")
    tree = laid_open(f"import zlib\nT = eval(zlib.decompress({packed!r}).decode())\n")
    assert "{1: 'one', 2: 'two'}" in ast.unparse(tree)


def test_examples_that_a_module_shows_are_left_out() -> None:
    source = "def f(x):\n    return x\nassert f(7) == 7\nprint(f(8))\nif __name__ == '__main__':\n    f(9)\n"
    assert ast.unparse(laid_open(source)) == "def f(x):\n    return x"


def test_code_that_cannot_be_laid_open_is_hidden() -> None:
    dense = base64.b64encode(zlib.compress(INNER.encode() * 3 + bytes(range(90)))).decode()
    source = f"import marshal\ndef f(x):\n    exec(marshal.loads(decode({dense!r})))\n"
    assert hides_code(laid_open(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n    return eval(x)",
        "def f(x):\n    '''Evaluate an expression, described in a long docstring with many words in it.'''\n"
        "    return eval(x)",
        "ALPHABET = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/'\n"
        "def f(x):\n    return ALPHABET[x]",
    ],
)
def test_evaluating_input_or_holding_an_alphabet_is_not_hiding(source: str) -> None:
    assert not hides_code(laid_open(source))


@pytest.mark.parametrize("source", ["def f(:", "\0", "(" * 5_000, "x = 1\n" * 50_000])
def test_what_is_no_readable_program_is_said_to_be_none(source: str) -> None:
    with pytest.raises(NoProgram):
        laid_open(source)


def test_of_a_script_everything_runs() -> None:
    source = "print(int(input()) + 1)"
    assert ast.unparse(laid_open(source, is_script=True)) == source
    assert ast.unparse(laid_open(source)) == ""
