"""The parts of mining, each against values worked by hand."""

import ast
from pathlib import Path

import pytest

from posttrain.mine import choose, examples, inline, mutate, package, sources
from posttrain.mine.boxes import Outcome
from posttrain.mine.cases import case_of
from posttrain.mine.examples import Example, Snippet
from posttrain.mine.package import Package
from posttrain.protocols import Case


def read_sources(folder: Path, **modules: str) -> sources.Sources:
    """Return the sources of modules `pkg.<name>`."""
    paths = {}
    for name, text in modules.items():
        paths[f"pkg.{name}"] = folder / f"{name}.py"
        paths[f"pkg.{name}"].write_text(text)
    return sources.read(Package("pkg", "1", "MIT", paths))


def needs_of(found: sources.Sources, function: str) -> inline.Needs:
    own = next(each for each in sources.functions(found) if each.name == function)
    roots = [(name, own.module) for name in inline.free_names([own.node]) if name != function]
    return inline.collect(found, own.module, function, roots)


# --- reading doctests -----------------------------------------------------------------------------


def test_examples_carry_what_was_set_up_before_them() -> None:
    read = examples.read(">>> from pkg import f\n>>> x = [1]\n>>> f(x)\n1\n>>> x\n[1]\n", "f", "pkg")
    assert read[0] == Example(Snippet("x = [1]", "f(x)"), "1\n", None)
    assert len(read) == 1


def test_an_iterator_that_is_advanced_is_advanced_in_the_next_example_too() -> None:
    _, second = examples.read(">>> it = f('ab')\n>>> next(it)\n'a'\n>>> next(it)\n'b'\n", "f", "pkg")
    assert second.snippet == Snippet("it = f('ab')\n_ = next(it)", "next(it)")


def test_printed_values_and_loops_become_expressions() -> None:
    printed, loop = examples.read(
        ">>> print(f(1))\nx\n>>> for y in f(2):\n...     print(y)\na\nb\n", "f", "pkg"
    )
    assert (printed.snippet.expression, printed.is_printed) == ("f(1)", True)
    assert eval(loop.snippet.expression, {"f": lambda n: ["a", "b"]}) == "a\nb"


def test_a_dictionary_in_another_order_is_what_the_documentation_shows() -> None:
    example = Example(Snippet("", "f()"), "{'a': 1, 'b': 2}\n", None)
    assert example.means({"b": 2, "a": 1})
    assert not example.means({"b": 2, "a": True})


def test_prose_is_the_docstring_without_its_examples() -> None:
    assert examples.prose("Say it.\n\n    >>> f()\n    1\n\n\nMore.") == "Say it.\n\nMore."


# --- taking over what a function needs --------------------------------------------------------------


def test_helpers_of_other_modules_come_before_what_needs_them(tmp_path: Path) -> None:
    found = read_sources(
        tmp_path,
        main="from .parts import scaled\nimport math as m\n\ndef f(x):\n    return scaled(m.floor(x))\n",
        parts="def scaled(x, by=None or 1):\n    'Doc.'\n    return x * STEP * by\n\nSTEP = 3\n",
    )
    needs = needs_of(found, "f")
    assert needs.imports == ("import math as m",)
    assert needs.definitions == ("STEP = 3", "def scaled(x, by=None or 1):\n    return x * STEP * by")
    assert needs.num_helpers == 1


def test_a_default_that_is_defined_later_in_its_module_comes_first(tmp_path: Path) -> None:
    found = read_sources(
        tmp_path,
        main="from .parts import last\n\ndef f(x):\n    return last(x)\n",
        parts="_nothing = object()\n\ndef last(x, default=_nothing):\n    return x\n",
    )
    assert needs_of(found, "f").definitions[0] == "_nothing = object()"


@pytest.mark.parametrize(
    ("main", "said"),
    [
        ("import numpy\n\ndef f(x):\n    return numpy.abs(x)\n", "numpy, which is no standard module"),
        ("from . import parts\n\ndef f(x):\n    return parts.g(x)\n", "parts is a module of the package"),
        ("def f(x):\n    return missing(x)\n", "missing is defined nowhere"),
        (
            "from .parts import g\n\ndef h(x):\n    return x\n\ndef f(x):\n    return g(x) + h(x)\n",
            "h means two things",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_named(tmp_path: Path, main: str, said: str) -> None:
    parts = "def h(x):\n    return -x\n\ndef g(x):\n    return h(x)\n"
    with pytest.raises(inline.CannotInline, match=said):
        needs_of(read_sources(tmp_path, main=main, parts=parts), "f")


def test_a_name_that_is_local_in_one_scope_and_global_in_another_is_needed() -> None:
    (node,) = ast.parse("def f():\n    def g():\n        helper = 1\n    return helper(g)\n").body
    assert inline.free_names([node]) == ["helper"]


def test_annotations_need_nothing() -> None:
    (node,) = ast.parse("def f(x: Some[int]) -> Other:\n    return x\n").body
    assert inline.free_names([node]) == []


# --- more inputs ------------------------------------------------------------------------------------


def test_numbers_lists_texts_and_arguments_are_changed() -> None:
    found = {m.expression for m in mutate.mutants(Snippet("", "f([1, 2], 'ab', k=True)"), "f", 10_000)}
    for wanted in (
        "f([2, 2], 'ab', k=True)", "f([0, 2], 'ab', k=True)", "f([-1, 2], 'ab', k=True)",
        "f([1000, 2], 'ab', k=True)", "f([], 'ab', k=True)", "f([1], 'ab', k=True)",
        "f([2, 1], 'ab', k=True)",
        "f([1, 2, 1, 2], 'ab', k=True)", "f([1, 2], '', k=True)", "f([1, 2], 'ba', k=True)",
        "f('ab', [1, 2], k=True)", "f([1, 2], 'ab', k=False)", "f([1, 2], 'ab')", "f([1, 2], k=True)",
    ):  # fmt: skip
        assert wanted in found
    assert "f([1, 2], 'ab', k=True)" not in found


def test_what_was_set_up_is_changed_and_entries_are_removed() -> None:
    found = mutate.mutants(Snippet("d = {'a': 1, 'b': 2}", "f(d)"), "f", 10_000)
    assert Snippet("d = {'b': 2}", "f(d)") in found


def test_mutants_are_the_same_every_time_and_so_many() -> None:
    snippet = Snippet("", "f([1, 2, 3])")
    assert mutate.mutants(snippet, "f", 20) == mutate.mutants(snippet, "f", 20)
    assert len(set(mutate.mutants(snippet, "f", 20))) == 20


# --- cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snippet", "outcome", "case"),
    [
        (Snippet("x = [1]", "f(x)"), Outcome(2), Case(2, "f", ([1],))),
        (Snippet("", "f(1)"), Outcome(iter([1])), Case([1], "f", (1,), comparator="list exact")),
        (Snippet("", "f(1)"), Outcome([0.5]), Case([0.5], "f", (1,), comparator="float:1e-9")),
        (Snippet("", "sorted(f(1))"), Outcome([1]), Case([1], "f", (1,), comparator="sorted exact")),
        (
            Snippet("", "f(len)"),
            Outcome(1),
            Case(1, "evaluate", ("", "f(len)")),
        ),
        (
            Snippet("", "f(1)"),
            Outcome(raised=("KeyError", "LookupError", "Exception")),
            Case(["KeyError"], "f", (1,), comparator="raises"),
        ),
        (Snippet("", "f(1)"), Outcome([iter([1])]), None),
    ],
)
def test_a_snippet_becomes_the_case_that_means_it(
    snippet: Snippet, outcome: Outcome, case: Case | None
) -> None:
    assert case_of(snippet, outcome, "f", (), hidden=True) == case


def test_a_builtin_that_the_preamble_replaces_is_not_taken_for_the_builtin() -> None:
    case = case_of(Snippet("", "sorted(f(1))"), Outcome([1]), "f", ("sorted",), hidden=True)
    assert case == Case([1], "evaluate", ("", "sorted(f(1))"))


def test_no_answer_fills_more_than_half_of_the_hidden_cases() -> None:
    shown = [Case(True, "f", (0,)), Case(False, "f", (1,))]
    more = [Case(n % 10 == 0, "f", (n,)) for n in range(2, 40)]
    visible, hidden = choose.split(shown, more)
    assert [case.arguments for case in visible] == [(0,)]
    assert (
        sum(case.expected is False for case in hidden) == sum(case.expected is True for case in hidden) == 3
    )
    assert not {case.arguments for case in visible} & {case.arguments for case in hidden}


def test_at_most_a_quarter_of_the_hidden_cases_expects_an_exception() -> None:
    raising = [Case([f"{n}"], "f", (n,), comparator="raises") for n in range(20)]
    _, hidden = choose.split([Case(1, "f", (-1,))], [*raising, *(Case(n, "f", (n,)) for n in range(20, 29))])
    assert sum(case.comparator == "raises" for case in hidden) == 3
    assert len(hidden) == 12


# --- packages ---------------------------------------------------------------------------------------


def test_packages_are_found_by_distribution_by_module_and_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert package.find("more-itertools").modules == package.find("more_itertools").modules
    assert "textwrap" in package.find("stdlib").modules
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_own").mkdir()
    (tmp_path / "my_own" / "deep.py").touch()
    (tmp_path / "my_own" / "__init__.py").touch()
    assert set(package.find("my_own").modules) == {"my_own", "my_own.deep"}
