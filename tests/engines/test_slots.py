import pytest

from posttrain.engines.slots import Slots, check, fitting, ladder
from posttrain.errors import CapacityError, ConfigError
from posttrain.protocols import Request, SampleKey, Sampling


def request(prompt, attempt=0, **sampling):
    return Request(tuple(prompt), SampleKey(0, "train", 0, attempt), Sampling(**sampling))


def slots(wave, most=8, context=100, stop=frozenset({9})):
    return Slots(wave, most, context, stop, version=4)


def test_the_ladder_doubles_from_eight_and_ends_at_the_setting():
    assert ladder(64) == [8, 16, 32, 64]
    assert ladder(50) == [8, 16, 32, 50]
    assert ladder(3) == [3]
    assert [fitting(ladder(50), n) for n in (1, 8, 9, 33, 500)] == [8, 8, 16, 50, 50]


def test_attempts_of_one_prompt_sit_together_in_order_of_first_appearance():
    wave = [request([1]), request([2]), request([1]), request([3]), request([2])]
    table = slots(wave)
    assert table.start({(1,), (2,), (3,)}) == [0, 1, 2, 3, 4]
    assert [a.index for a in table.rows if a] == [0, 2, 1, 4, 3]


def test_a_freed_row_takes_the_next_request_and_results_keep_the_waves_places():
    wave = [request([1], i, max_tokens=1 + i % 2) for i in range(5)]
    table = slots(wave, most=2)
    assert table.start({(1,)}) == [0, 1]
    table.append(0, 5, -0.5)  # request 0 may have one token
    assert table.active == [1]
    assert table.start({(1,)}) == [0]
    assert table.rows[0].index == 2
    assert table.results[0].tokens == (5,)
    assert table.results[0].version == 4


def test_nothing_starts_before_its_prompt_is_ready():
    table = slots([request([1]), request([2])])
    assert table.next_prompts(budget=10) == [(1,), (2,)]
    assert table.start({(1,)}) == [0]
    assert table.can_start
    assert table.next_prompts(budget=10) == [(2,)]


def test_one_prefill_takes_distinct_prompts_up_to_its_budget_and_at_least_one():
    wave = [request([i] * 5) for i in (1, 1, 2, 3)]
    assert slots(wave).next_prompts(budget=10) == [(1,) * 5, (2,) * 5]
    assert slots(wave).next_prompts(budget=1) == [(1,) * 5]


@pytest.mark.parametrize(("tokens", "stop"), [([5, 9], "stop"), ([5, 6, 7], "length"), ([5, 6, 9], "stop")])
def test_an_attempt_ends_by_stop_token_or_length(tokens, stop):
    table = slots([request([1], max_tokens=3)])
    table.start({(1,)})
    for token in tokens:
        table.append(0, token, -1.0)
    assert table.results[0].tokens == tuple(tokens)
    assert table.results[0].stop == stop


def test_a_full_context_ends_an_attempt():
    table = slots([request([1] * 8, max_tokens=50)], context=10)
    table.start({(1,) * 8})
    table.append(0, 5, -1.0)
    assert table.active
    table.append(0, 5, -1.0)
    assert table.results[0].stop == "context"


def test_rows_shrink_by_the_ladder_only_when_the_queue_is_empty():
    wave = [request([1], i, max_tokens=2) for i in range(20)]
    table = slots(wave, most=16)
    table.start({(1,)})
    for row in range(10):
        table.append(row, 9, -1.0)
    assert table.shrink() is None
    table.start({(1,)})
    assert table.active == [0, 1, 2, 3, *range(10, 16)]
    table.append(0, 9, -1.0)
    assert table.shrink() is None
    table.append(12, 9, -1.0)
    assert table.shrink() == [1, 2, 3, 10, 11, 13, 14, 15]
    assert [a.index for a in table.rows if a] == [17, 18, 19, 10, 11, 13, 14, 15]


def test_a_prompt_that_fills_the_context_is_refused_with_both_lengths():
    with pytest.raises(CapacityError, match=r"100 tokens .* 100 tokens"):
        check([request([1] * 100)], 100)


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"temperature": 0.0}, {"top_p": 0.0}, {"top_k": -1}])
def test_impossible_sampling_is_refused_by_key(wrong):
    with pytest.raises(ConfigError, match=f"sampling.{next(iter(wrong))}"):
        check([request([1], **wrong)], 100)


def test_an_empty_prompt_is_refused():
    with pytest.raises(ConfigError, match="empty prompt"):
        check([request([])], 100)
