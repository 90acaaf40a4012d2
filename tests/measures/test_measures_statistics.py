"""pass@k, intervals, paired comparisons and constants against enumeration, scipy and simulation."""

import doctest
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from posttrain.measures import constant, paired, pass_at_k
from posttrain.measures.constant import best_constant
from posttrain.measures.intervals import clustered_mean, interval_of_means
from posttrain.measures.paired import holm, paired_difference, paired_t_p, sign_flip_p
from posttrain.rewards.match import exact
from posttrain.types import Message, Task


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 2), (5, 3, 2), (5, 0, 3), (6, 6, 6), (7, 2, 1), (6, 4, 5)])
def test_pass_at_k_and_pass_hat_k_equal_the_share_of_all_draws(n: int, c: int, k: int) -> None:
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k.pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_at_k.pass_hat_k(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 0), (4, 1, 5), (4, 5, 2), (4, -1, 2)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected"):
        pass_at_k.pass_at_k(n, c, k)
    with pytest.raises(ValueError, match="expected"):
        pass_at_k.pass_hat_k(n, c, k)


def test_a_clustered_interval_is_scipys_t_interval_of_task_means() -> None:
    by_task = {"a": (1.0, 0.0, 1.0, 1.0), "b": (0.0, 0.0), "c": (1.0,), "d": (0.0, 1.0), "unjudged": ()}
    means = [0.75, 0.0, 1.0, 0.5]
    expected = stats.t.interval(0.95, 3, loc=np.mean(means), scale=stats.sem(means))
    found = clustered_mean(by_task)
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.mean == pytest.approx(0.5625)
    assert found.num_tasks == 4


def test_one_task_tells_nothing_about_spread_and_none_nothing_at_all() -> None:
    assert interval_of_means([0.5]).high == math.inf
    assert math.isnan(interval_of_means([]).mean)


def test_intervals_clustered_by_task_cover_the_truth_in_95_percent_of_experiments() -> None:
    rng = np.random.default_rng(0)
    num, covered, covered_if_attempts_were_independent = 4_000, 0, 0
    for rates in rng.beta(2.0, 3.0, size=(num, 50)):
        values = rng.binomial(1, np.repeat(rates[:, None], 4, axis=1)).astype(float)
        found = clustered_mean({str(i): tuple(row) for i, row in enumerate(values)})
        covered += found.low <= 0.4 <= found.high
        naive = interval_of_means([float(v) for v in values.ravel()])
        covered_if_attempts_were_independent += naive.low <= 0.4 <= naive.high
    assert covered / num == pytest.approx(0.95, abs=0.015)
    assert covered_if_attempts_were_independent / num < 0.92


def by_task(values: Sequence[float]) -> dict[str, tuple[float, ...]]:
    return {str(index): (value,) for index, value in enumerate(values)}


def test_a_paired_difference_is_scipys_paired_t_test_on_common_tasks() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=30), rng.normal(0.3, size=30)
    found = paired_difference({**by_task(a), "only a": (9.0,)}, {**by_task(b), "only b": (-9.0,)})
    expected = stats.ttest_rel(b, a)
    limits = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((limits.low, limits.high))
    assert found.interval.mean == pytest.approx(float(np.mean(b - a)))


def test_few_tasks_are_compared_by_the_exact_permutation_test_of_scipy() -> None:
    differences = [0.5, 0.25, -0.25, 0.75, 0.5, 0.0, 1.0]
    expected = stats.permutation_test(
        (differences,), lambda x, axis: np.mean(x, axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    found = paired_difference(by_task([0.0] * 7), by_task(differences))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert sign_flip_p([1.0, 1.0, 1.0]) == pytest.approx(2 / 8)


def test_no_difference_is_never_significant() -> None:
    same = by_task([1.0, 0.0, 1.0])
    assert paired_difference(same, same).p_value == 1.0
    assert paired_difference({}, same).p_value == 1.0
    assert paired_t_p([0.0] * 20) == 1.0


def test_paired_intervals_cover_the_true_difference() -> None:
    rng = np.random.default_rng(2)
    num, covered, rejected = 2_000, 0, 0
    for rates in rng.uniform(0.1, 0.6, size=(num, 50)):
        a = rng.binomial(4, rates) / 4
        b = rng.binomial(4, rates) / 4
        found = paired_difference(by_task(a), by_task(b))
        covered += found.interval.low <= 0.0 <= found.interval.high
        rejected += found.p_value <= 0.05
    assert covered / num == pytest.approx(0.95, abs=0.015)
    assert rejected / num == pytest.approx(0.05, abs=0.015)


def test_holm_adjusts_the_hand_worked_table() -> None:
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx((0.03, 0.04, 0.04, 0.02))
    assert holm([0.5, 0.9]) == pytest.approx((1.0, 1.0))
    assert holm([]) == ()


def task(name: str, gold: str) -> Task:
    return Task(name, "letters", 0, (Message("user", "?"),), {"answer": gold})


def test_the_best_constant_is_chosen_on_training_tasks_and_scored_on_others() -> None:
    train = [task(f"train/{i}", gold) for i, gold in enumerate("aabc")]
    held_out = [task(f"eval/{i}", gold) for i, gold in enumerate("abbbbbbb")]
    found = best_constant(train, held_out, lambda t, answer: exact(answer, t.reference["answer"]))
    assert found.answer == "a"
    assert found.interval.mean == pytest.approx(1 / 8)
    assert found.interval.num_tasks == 8


def test_without_gold_answers_the_constant_is_empty() -> None:
    bare = [Task("t", "d", 0, (Message("user", "?"),), {})]
    assert best_constant(bare, bare, lambda t, answer: 0.0).answer == ""


@pytest.mark.parametrize("module", [pass_at_k, paired, constant])
def test_examples_in_docstrings_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0
