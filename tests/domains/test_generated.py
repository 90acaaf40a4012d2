"""Generated domains: levels, disjoint splits, scoring, and errors a user can act on."""

import asyncio
import random

import numpy as np
import pytest

from posttrain.contracts.domain import attempt
from posttrain.domains.generated import demonstration, generated, split_of
from posttrain.domains.sets import EASY, NO_GOLD, OWN_SCORING, REFUSED, SOUND
from posttrain.errors import ConfigError, InputError
from posttrain.sandbox.scripted import ScriptedSandbox
from posttrain.types import Domain, Message, Task

ONE_DIGIT = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}


def value(domain: Domain, task: Task, answer: str) -> float:
    return asyncio.run(domain.verify(attempt(task, answer), ScriptedSandbox(), {})).value


def test_a_task_asks_the_question_and_ends_with_the_instruction() -> None:
    task = generated("chain_sum", **ONE_DIGIT).task("train", 0, 0)
    question, instruction = task.prompt[0].content.rsplit("\n", 1)
    assert question.startswith("State the final answer to the following arithmetic problem: ")
    assert instruction == "Give only the final answer."
    expression = question.rsplit(": ", 1)[1].removesuffix(" =")
    assert task.reference["answer"] == str(eval(expression))
    assert task.id == "chain_sum/train/0/0"


def test_instruction_and_name_are_settings() -> None:
    domain = generated("chain_sum", name="sums", instruction="", **ONE_DIGIT)
    task = domain.task("eval", 0, 5)
    assert domain.name == task.domain == "sums"
    assert task.prompt[0].content.endswith("=")


def test_no_question_is_in_both_splits_even_of_a_small_set() -> None:
    domain = generated("products", instruction="", min_digits=1, max_digits=1)
    train = {domain.task("train", 0, i).prompt[0].content for i in range(300)}
    held_out = {domain.task("eval", 0, i).prompt[0].content for i in range(300)}
    assert not train & held_out
    assert len(train) > 30
    assert len(held_out) > 30
    assert {split_of(text) for text in train} == {"train"}


def both_splits(**config: int) -> None:
    domain = generated("count_bits", **config)
    domain.task("train", 0, 0)
    domain.task("eval", 0, 0)


def test_a_set_with_a_single_question_cannot_be_split() -> None:
    with pytest.raises(ConfigError, match="too few different questions"):
        both_splits(min_n=1, max_n=1)


def test_levels_are_the_curriculum_from_easy_to_hard_without_repeats() -> None:
    domain = generated("chain_sum")
    terms = [len(domain.task("train", level, 0).prompt[0].content) for level in (0, domain.levels - 1)]
    assert domain.levels == 11
    assert terms[0] < terms[1]
    assert generated("chain_sum", **ONE_DIGIT).levels == 1
    assert generated("gsm_symbolic").levels == 1


def test_settings_hold_at_every_level() -> None:
    domain = generated("chain_sum", max_digits=1)
    operands = (
        domain.task("train", domain.levels - 1, 3).prompt[0].content.split(": ")[1].split(" =")[0].split()
    )
    assert all(len(operand) == 1 for operand in operands)


@pytest.mark.parametrize("name", ["chain_sum", "list_functions", "pool_matrix", "bf"])
def test_making_a_task_leaves_the_global_generators_and_the_terminal_alone(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = generated(name)
    first = domain.task("train", 0, 1)
    random.seed(3)
    np.random.seed(3)
    state, numpy_state = random.getstate(), np.random.get_state()[1].tolist()
    assert domain.task("train", 0, 1) == first
    assert random.getstate() == state
    assert np.random.get_state()[1].tolist() == numpy_state
    assert capsys.readouterr().out == ""


def test_an_answer_earns_all_or_nothing() -> None:
    domain = generated("chain_sum", **ONE_DIGIT)
    task = domain.task("train", 0, 0)
    gold = demonstration(task)
    for right in (
        gold,
        f"The answer is {gold}.",
        f"\\boxed{{{gold}}}",
        f"{gold}.0",
        f"<answer>{gold}</answer>",
    ):
        assert value(domain, task, right) == 1.0
    for wrong in ("", "I do not know", " ".join(map(str, range(-9, 200))), f"{gold}0", f"not {gold}"):
        assert value(domain, task, wrong) == 0.0


def test_zero_does_not_pass_where_the_sets_own_scoring_would_pay_it() -> None:
    domain = generated("coin_flip")
    task = next(t for i in range(20) if (t := domain.task("train", 0, i)).reference["answer"] != "0")
    assert value(domain, task, "0") == 0.0


def test_other_right_answers_earn_full_marks_where_several_are_right() -> None:
    domain = generated("palindrome_generation", min_length=5, max_length=5)
    task = domain.task("train", 0, 1)
    gold = str(task.reference["answer"])
    other = gold[1] + gold[0] + gold[2] + gold[0] + gold[1]
    assert other != gold
    assert value(domain, task, other) == 1.0
    assert value(domain, task, "abcba") == 0.0


def test_a_countdown_answer_that_is_not_plain_arithmetic_never_reaches_the_scorer() -> None:
    domain = generated("countdown")
    task = domain.task("train", 0, 0)
    gold = str(task.reference["answer"])
    assert value(domain, task, gold.replace(" ", "")) == 1.0
    assert value(domain, task, "9**9**9**9") == 0.0
    assert value(domain, task, "__import__('os').system('echo here')") == 0.0


def test_partial_marks_are_paid_only_where_asked_for_and_stay_below_success() -> None:
    strict, partial = generated("gcd"), generated("gcd", partial=True)
    task = strict.task("train", 0, 0)
    gold = str(task.reference["answer"])
    wrong = f"{gold} or so"
    assert value(strict, task, wrong) == 0.0
    assert value(partial, task, wrong) == pytest.approx(len(gold) / len(wrong))
    assert value(partial, task, gold) == 1.0
    coins = generated("coin_flip", partial=True)
    other = next(t for i in range(20) if (t := coins.task("train", 0, i)).reference["answer"] != "0")
    assert value(coins, other, "0") < 1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"set": "chain_sun"}, ["chain_sun", "Did you mean 'chain_sum'?"]),
        ({"set": "puzzle24"}, ["puzzle24", "which numbers"]),
        ({"set": "game_of_life_halting"}, ["any text"]),
        ({"set": "chain_sum", "max_term": 3}, ["max_term", "Did you mean 'max_terms'?"]),
        ({"set": "chain_sum", "seed": 3}, ["seed", "min_terms"]),
        ({"set": "chain_sum", "max_terms": 0}, ["max_terms must be >= min_terms"]),
        ({"set": "chain_sum", "max_terms": "three"}, ["rejects"]),
        ({"set": "simple_equations", "operators": ["+"]}, ["weights"]),
        ({"set": "spiral_matrix", "partial": True}, ["execute"]),
    ],
)
def test_bad_settings_give_one_clear_error(arguments: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        generated(**arguments)  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in words)


def test_a_task_without_gold_answer_cannot_be_demonstrated() -> None:
    with pytest.raises(InputError, match="no gold answer"):
        demonstration(Task("t", "d", 0, (Message("user", "?"),), {}))
    assert "answer" not in generated("graph_color").task("train", 0, 0).reference


def test_the_tables_of_sets_agree_with_each_other() -> None:
    assert not set(SOUND) & (set(REFUSED) | set(NO_GOLD))
    assert set(EASY) <= set(SOUND)
    assert set(NO_GOLD) <= set(OWN_SCORING) <= set(SOUND) | set(NO_GOLD)
