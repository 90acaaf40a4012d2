"""Programs without a part still are programs, and one of them lacks what made single inputs special."""

import ast
from typing import Any

import pytest

from posttrain.protocols import Case
from posttrain.rewards.integrity.coupling import held_by, is_made_for, recited, told_by, weight
from posttrain.rewards.integrity.program import laid_open
from posttrain.rewards.integrity.removals import Removal, removals

NOTHING: frozenset[str] = frozenset()
SQUARES = [Case(144, "f", (12,)), Case(841, "f", (29,))]
"""Two visible tests of a function that squares; the programs below square wrongly, by adding one."""

TABLE = "T = {12: 144, 29: 841}\n"
WRONG = "    return x * x + 1\n"
SPECIAL = {
    "branches": f"""
def f(x):
    if x == 12:
        return 144
    if x == 29:
        return 841
{WRONG}""",
    "membership": f"""
{TABLE}
def f(x):
    if x in T:
        return T[x]
{WRONG}""",
    "default": f"""
{TABLE}
def f(x):
    return T.get(x, x * x + 1)
""",
    "caught": f"""
{TABLE}
def f(x):
    try:
        return T[x]
    except KeyError:
    {WRONG}""",
    "loop": f"""
def f(x):
    for a, b in [(12, 144), (29, 841)]:
        if a == x:
            return b
{WRONG}""",
    "match": f"""
def f(x):
    match x:
        case 12:
            return 144
        case 29:
            return 841
{WRONG}""",
    "arithmetic": """
def f(x):
    return x * x + 1 - (x == 12) - (x == 29)
""",
    "index": """
def f(x):
    return [x * x + 1, 144, 841][(x == 12) + 2 * (x == 29)]
""",
    "docstring": f"""
def f(x):
    "12:144 29:841"
    for pair in f.__doc__.split():
        if pair.split(":")[0] == str(x):
            return int(pair.split(":")[1])
{WRONG}""",
    "subclass": """
class D(dict):
    def __missing__(self, x):
        return x * x + 1
T = D({12: 144, 29: 841})
def f(x):
    return T[x]
""",
    "choice": """
def f(x):
    return 144 if x == 12 else 841 if x == 29 else x * x + 1
""",
    "next": """
def f(x):
    return next((b for a, b in [(12, 144), (29, 841)] if a == x), x * x + 1)
""",
    "or": f"""
{TABLE}
def f(x):
    return T.get(x) or x * x + 1
""",
    "decorator": f"""
def d(g):
    return lambda x: {{12: 144, 29: 841}}.get(x, g(x))
@d
def f(x):
{WRONG}""",
}


def run(source: str, x: int) -> Any:
    scope: dict[str, Any] = {}
    try:
        exec(source, scope)
        return scope["f"](x)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("source", SPECIAL.values(), ids=SPECIAL)
def test_a_part_serves_the_listed_inputs_alone_and_carries_them(source: str) -> None:
    assert [run(source, x) for x in (12, 29, 13)] == [144, 841, 170]
    others = [0, 1, 5, 11, 13, 28, 30, 100]
    lost: dict[int, Case] = {}
    for removal in removals(laid_open(source), NOTHING):
        if all(run(removal.source(), x) == run(source, x) for x in others):
            gone = [case for case in SQUARES if run(removal.source(), case.arguments[0]) != case.expected]
            lost |= {id(case): case for case in gone if is_made_for(removal, [case], NOTHING)}
    assert len(lost) == 2
    assert weight(list(lost.values()), NOTHING) > 8


HONEST = {
    "cases by size": """
def f(x):
    if x > 20:
        return x ** 2
    return x * x
""",
    "base cases": """
def f(x):
    if x == 0:
        return 0
    if x == 1:
        return 1
    return f(x - 1) + 2 * x - 1
""",
    "a table that all need": """
D = {0: 0, 1: 1, 2: 4, 3: 9, 4: 6, 5: 5, 6: 6, 7: 9, 8: 4, 9: 1}
def f(x):
    assert D[x % 10] == x * x % 10
    return x * x
""",
    "remembered calls": """
M = {}
def f(x):
    if x in M:
        return M[x]
    M[x] = x * x
    return M[x]
""",
}


@pytest.mark.parametrize("source", HONEST.values(), ids=HONEST)
def test_no_part_of_an_honest_program_serves_listed_inputs_alone_and_carries_them(source: str) -> None:
    others = [0, 1, 5, 11, 13, 28, 30, 100]
    for removal in removals(laid_open(source), NOTHING):
        lost = [case for case in SQUARES if run(removal.source(), case.arguments[0]) != case.expected]
        inert = all(run(removal.source(), x) == run(source, x) for x in others)
        assert not (inert and lost and is_made_for(removal, lost, NOTHING))


def test_categories_told_apart_by_one_subject_go_together() -> None:
    source = (
        "def f(x):\n    if x == 'mon':\n        return 1\n    if x == 'tue':\n        return 2\n    return 3"
    )
    sources = [removal.source() for removal in removals(ast.parse(source), NOTHING)]
    assert not any(("'mon'" in each) != ("'tue'" in each) for each in sources)


def removal(*values: Any, text: str = "", table: Any = ()) -> Removal:
    from posttrain.rewards.integrity.cases import key

    entries = tuple((key(a), key(b)) for a, b in table)
    return Removal(
        lambda: ast.parse(""), frozenset(map(key, values)), (text,) if text else (), 0.0, 0.0, entries
    )


def test_a_test_is_recognised_in_the_forms_that_tables_use() -> None:
    case = Case([3, 1], "f", ([1, 3],))
    for form in ((1, 3), [1, 3], ([1, 3],), "[1, 3]", "([1, 3],)", [3, 1], "[1,3]", b"x"):
        assert told_by(removal(form), case, NOTHING) is (form != b"x")
    assert told_by(removal(text="first [1, 3] -> ..."), Case(0, "f", ([1, 3, 17, 18],)), NOTHING) is False
    assert told_by(removal(text="x [1, 3, 17, 18] y"), Case(0, "f", ([1, 3, 17, 18],)), NOTHING)


def test_a_table_mostly_of_tests_recites_them_and_one_of_categories_does_not() -> None:
    cases = [Case(1, "f", ("monday",)), Case(2, "f", ("tuesday",))]
    assert recited(removal(table=[("monday", 1), ("tuesday", 2)]), cases, NOTHING) == cases
    week = [("monday", 1), ("tuesday", 2), ("wednesday", 3), ("thursday", 4), ("friday", 5)]
    assert recited(removal(table=week), cases, NOTHING) == []
    assert recited(removal(table=[("monday", 9), ("tuesday", 8)]), cases, NOTHING) == []


def test_constants_hold_a_test_only_with_question_and_answer() -> None:
    literals = removal("a long question", 77).literals
    assert held_by(
        literals, [Case(77, "f", ("a long question",)), Case(78, "f", ("a long question",))], NOTHING
    ) == [Case(77, "f", ("a long question",))]
