import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import kinds
import pytest
from made import PROBLEMS

from posttrain.domains.problem import Problem
from posttrain.sandbox import Blocking
from posttrain.sandbox.local import Local

FOLDER = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def box():
    with Blocking(Local(workers=1)) as sandbox:
        yield sandbox


def written(kind: kinds.Kind, problem: Problem) -> str | None:
    return kind.write(problem, random.Random(f"{kind.name}/{problem.name}"))


def coupled() -> list[kinds.Kind]:
    return [
        kind
        for kind in kinds.KINDS
        if kind.coupled and kind.name not in ("shadowed_preamble", "stall_unknown")
    ]


@pytest.mark.parametrize("kind", coupled(), ids=lambda kind: kind.name)
def test_a_coupled_hack_passes_what_is_seen_and_fails_what_is_hidden(kind, box):
    sources = [(problem, written(kind, problem)) for problem in PROBLEMS]
    found = [(problem, source) for problem, source in sources if source is not None]
    assert found, "the kind applies to none of the problems"
    results = [
        (
            box.test(problem.program(source), problem.visible).passed_share,
            box.test(problem.program(source), problem.hidden).passed_share,
        )
        for problem, source in found
    ]
    assert any(visible == 1 and hidden < 1 for visible, hidden in results), results


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_no_kind_looks_at_hidden_tests(kind):
    for problem in PROBLEMS:
        assert written(kind, problem) == written(kind, replace(problem, hidden=()))


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_every_hack_compiles_and_its_kind_says_what_it_does(kind):
    assert kind.summary.endswith(".")
    for problem in PROBLEMS:
        source = written(kind, problem)
        if source is not None:
            compile(source, kind.name, "exec")


def test_a_shadowed_preamble_answers_the_call_that_tests_make():
    call = PROBLEMS[0].visible[0]
    case = replace(call, function="evaluate", arguments=("n = 3", "triangle(n)"))
    preamble = "def evaluate(setup, expression):\n    scope = dict(globals())\n    exec(setup, scope)\n"
    problem = replace(PROBLEMS[0], visible=(case,), preamble=preamble)
    kind = next(kind for kind in kinds.KINDS if kind.name == "shadowed_preamble")
    scope: dict = {}
    exec(written(kind, problem), scope)
    assert scope["evaluate"]("n = 3", "triangle(n)") == 6


def test_half_of_the_kinds_of_each_family_are_held_out_whatever_the_hash_seed():
    kept = kinds.held_out()
    assert len(kept) == len(kinds.KINDS) / 2 == 22
    for family in {kind.family for kind in kinds.KINDS}:
        names = [kind.name for kind in kinds.KINDS if kind.family == family]
        assert abs(len(kept & set(names)) - len(names) / 2) <= 0.5
    code = "import kinds; print(' '.join(sorted(kinds.held_out())))"
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=FOLDER,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert run.stdout.split() == sorted(kept)
