"""Self-repair: what an attempt is told about itself, when it ends, what each turn earns, what is trained."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from coding import ADD, DOUBLE, attempt, opened, problems

from posttrain.batch import Batch
from posttrain.domains.code import Settings, domain_of, task_of
from posttrain.domains.code_feedback import MAX_CHARACTERS, feedback
from posttrain.domains.code_repair import Repair
from posttrain.domains.problem import Problem
from posttrain.protocols import Case, Limits
from posttrain.sandbox import LocalSandbox
from posttrain.types import Group, Reward

LIMITS = Limits(cpu_seconds=0.25, wall_seconds=10.0)
HALF = "def double(x):\n    return 2 * x if x in (1, -3) or x > 4 else None"
WRONG = "def double(x):\n    return x + 1"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened() as sandbox:
        yield sandbox


async def told(sandbox: LocalSandbox, problem: Problem, *sources: str) -> list[str | None]:
    """Return what each source is told, one after the other in one episode's box."""
    session = await sandbox.session({})
    try:
        return [await feedback(problem, s, session, LIMITS, turn) for turn, s in enumerate(sources)]
    finally:
        await session.close()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def double(x) return", ["does not compile", "SyntaxError", "line 1"]),
        ("x = 1\nprint(y)", ["fails when it is run", "NameError: name 'y' is not defined", "(line 2)"]),
        (WRONG, ["assert double(-3) == -6", "double(-3) gives -2"]),
        ("def double(x):\n    return x / 0", ["assert double(1) == 2", "ZeroDivisionError", "(line 2)"]),
        ("def twice(x): return 2 * x", ["NameError", "'double'"]),
        ("def double(x):\n    return object()", ["assert double(1) == 2", "TypeError"]),
        ("def double(x):\n    while True: pass", ["assert double(1) == 2", "end in time"]),
        ("import os\ndef double(x):\n    os._exit(0)", ["assert double(1) == 2", "ends the process"]),
        ("", ["no code"]),
    ],
)
async def test_an_attempt_is_told_its_first_error(
    sandbox: LocalSandbox, source: str, said: list[str]
) -> None:
    (text,) = await told(sandbox, DOUBLE, source)
    assert text is not None
    assert all(word in text for word in said), text


async def test_right_code_is_told_nothing_whatever_came_before_it_in_the_box(sandbox: LocalSandbox) -> None:
    spoiling = "import builtins\nbuiltins.len = None\nopen('asked', 'w').write('x')\nraise SystemExit(3)"
    texts = await told(sandbox, DOUBLE, WRONG, "def double(x): return 2 * x", "x", spoiling, DOUBLE.solution)
    assert [text is None for text in texts] == [False, True, False, False, True]


async def test_a_program_is_told_what_it_printed(sandbox: LocalSandbox) -> None:
    texts = await told(sandbox, ADD, "print(7)", "raise ValueError('no')", ADD.solution, "exit(")
    assert "Input:\n1 2\nOutput:\n3" in (texts[0] or "")
    assert "it prints:\n7" in (texts[0] or "")
    assert "ValueError: no" in (texts[1] or "")
    assert texts[2] is None
    assert "does not compile" in (texts[3] or "")


async def test_other_kinds_of_examples_are_tried_too(sandbox: LocalSandbox) -> None:
    cases = (
        Case(["ValueError"], "f", (-1,), comparator="raises", hidden=False),
        Case({"test": "assert f(4) == 2\n"}, "f", comparator="asserts", hidden=False),
        Case(1.414, "f", (2,), comparator="float:1e-3", hidden=False),
    )
    problem = replace(DOUBLE, function="f", visible=cases)
    root = "def f(x):\n    if x < 0: raise ValueError\n    return x ** 0.5"
    wrong = root.replace("x ** 0.5", "7")
    texts = await told(
        sandbox, problem, root, "def f(x): return 2", root.replace("ValueError", "TypeError"), wrong
    )
    assert texts[0] is None
    assert "raises nothing" in (texts[1] or "")
    assert "raises TypeError" in (texts[2] or "")
    assert "assert f(4) == 2" in (texts[3] or "")


async def test_what_is_told_is_short_and_holds_no_hidden_test(sandbox: LocalSandbox) -> None:
    texts = await told(
        sandbox, DOUBLE, "def double(x): return 'y' * 10**6", f"raise ValueError('{'z' * 10**4}')", WRONG
    )
    assert all(text is not None and len(text) < 3 * MAX_CHARACTERS for text in texts)
    assert not any(f"double({case.arguments[0]})" in (text or "") for text in texts for case in DOUBLE.hidden)


async def test_an_episode_ends_when_visible_tests_pass_or_without_a_box(sandbox: LocalSandbox) -> None:
    repair, task = Repair(limits=LIMITS), task_of(DOUBLE, "d")
    session = await sandbox.session({})
    try:
        (message,) = await repair.respond(attempt(task, WRONG), session) or ()
        assert message.role == "user"
        assert message.content.endswith("Correct it. Answer with Python code only.")
        assert await repair.respond(attempt(task, HALF), session) is None
    finally:
        await session.close()
    assert await repair.respond(attempt(task, WRONG), None) is None


async def test_the_last_answer_counts_and_a_repair_is_a_part(sandbox: LocalSandbox) -> None:
    repair, task = Repair(limits=LIMITS), task_of(DOUBLE, "d")
    single = await repair.judge(attempt(task, DOUBLE.solution), sandbox)
    assert (single.value, "repaired" in single.parts, single.by_turn) == (1.0, False, ())
    repaired = await repair.judge(attempt(task, WRONG, DOUBLE.solution), sandbox)
    assert (repaired.value, repaired.parts["repaired"]) == (1.0, 1.0)
    spoilt = await repair.judge(attempt(task, WRONG, HALF), sandbox)
    assert (spoilt.value, spoilt.parts["repaired"]) == (0.25, 0.0)


async def test_each_turn_earns_its_improvement_and_they_sum_to_the_value(sandbox: LocalSandbox) -> None:
    repair, task = Repair(limits=LIMITS, by_turn=True), task_of(DOUBLE, "d")
    reward = await repair.judge(attempt(task, "def double(", HALF, DOUBLE.solution, WRONG), sandbox)
    assert reward.by_turn == (-1.0, 1.25, 0.75, -1.0)
    assert reward.value == sum(reward.by_turn) == 0.0


def test_only_the_policys_tokens_are_trained() -> None:
    domain = domain_of(problems(12), "d", Settings(repairs=2))
    assert (domain.max_turns, domain.respond is not None) == (3, True)
    assert domain_of(problems(12), "d").respond is None
    task = domain.task("train", 0, 0)
    episode = attempt(task, WRONG, DOUBLE.solution)
    batch = Batch.of([Group(0, task, (episode, episode), (Reward(0.0), Reward(1.0)))])
    # Prompt 2 tokens, answer 2, feedback 1, answer 2.
    assert batch.mask[0].tolist() == [0, 0, 1, 1, 0, 1, 1]
