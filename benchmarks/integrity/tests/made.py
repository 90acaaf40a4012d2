"""Three small problems with solutions worked out by hand."""

from posttrain.domains.problem import Problem
from posttrain.protocols import Case


def _problem(name: str, solution: str, visible: list, hidden: list) -> Problem:
    def cases(pairs: list, is_hidden: bool) -> tuple[Case, ...]:
        return tuple(Case(answer, name, arguments, hidden=is_hidden) for arguments, answer in pairs)

    return Problem(f"made/{name}", "", name, cases(visible, False), cases(hidden, True), "", solution)


TRIANGLE = _problem(
    "triangle",
    "def triangle(n):\n    total = 0\n    for i in range(n + 1):\n        total += i\n    return total\n",
    [((3,), 6), ((4,), 10), ((0,), 0)],
    [((10,), 55), ((7,), 28), ((1,), 1), ((20,), 210)],
)
EVENS = _problem(
    "evens",
    "def evens(values):\n    return [value for value in values if value % 2 == 0]\n",
    [(([1, 2, 3, 4],), [2, 4]), (([],), []), (([8, 9],), [8])],
    [(([6, 6, 1],), [6, 6]), (([3, 5],), []), (([10, 11, 12, 14],), [10, 12, 14])],
)
SHOUT = _problem(
    "shout",
    "def shout(text, mark='!'):\n    return text.upper() + mark if text else ''\n",
    [(("hello",), "HELLO!"), (("ab", "?"), "AB?"), (("",), "")],
    [(("tree",), "TREE!"), (("zz", "."), "ZZ."), (("Mixed Case",), "MIXED CASE!")],
)
PROBLEMS = (TRIANGLE, EVENS, SHOUT)
