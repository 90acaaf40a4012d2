import asyncio

import pytest

from posttrain.engines.scripted import Scripted
from posttrain.protocols import Request, SampleKey, Sampling


def test_answers_are_cut_at_the_stop_token_and_at_the_limit():
    engine = Scripted(lambda request: [4, 5, 9, 6], frozenset({9}), probability=0.25)
    key = SampleKey(0, "train", 0, 0)
    wave = [Request((1,), key, Sampling(max_tokens=n)) for n in (8, 2)]
    first, second = asyncio.run(engine.generate(wave))
    assert (first.tokens, first.stop) == ((4, 5, 9), "stop")
    assert (second.tokens, second.stop) == ((4, 5), "length")
    assert first.logprobs == pytest.approx([-1.3862944] * 3)
    assert engine.waves == [tuple(wave)]


def test_loads_are_remembered_and_change_the_version():
    engine = Scripted(lambda request: [1])
    asyncio.run(engine.load({}, 7))
    assert (engine.version, engine.loads) == (7, [7])
