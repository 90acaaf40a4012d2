import json

import pytest
from transformers import LlamaConfig

from posttrain.bench import learner
from posttrain.bench.learner import FULL, OURS, PADDED, Study, read_shapes, run, shared_flops
from posttrain.bench.loop import Place
from posttrain.bench.updates import Shape, attempts
from posttrain.errors import ConfigError, RunFailed
from posttrain.models.source import resolve

FAKE = """
def main(lines, settings):
    shape = settings["shape"]
    scored = shape["groups"] * shape["attempts"] * shape["completion"]
    lines.answer({"num_trainable": 10})
    side = settings["layout"] if KIND == "ours" else "padded"
    pace = {"shared": [9.0, 1.0, 2.0], "full": [9.0, 4.0, 4.0], "padded": [9.0, 6.0, 6.0]}[side]
    number = 0
    while lines.wait():
        lines.answer({
            "seconds": pace[number % 3], "cpu_seconds": 1.0, "num_tokens": scored, "matmul_flops": 1e9,
        })
        number += 1
"""
STUDY = Study(shapes=(Shape(4, 3, 2, groups=2), Shape(2, 6, 2, groups=1)), warmups=1, repetitions=2)


@pytest.fixture
def place():
    return Place(str(resolve("tiny")), "float32", "cpu", threads=1)


@pytest.fixture
def fakes(script, monkeypatch):
    """Put scripts in the places of all sides; returns a function that replaces the peer's text."""

    def peer(text: str) -> None:
        path = script(text, "padded.py")
        monkeypatch.setattr(learner, "peer_script", lambda name: path)

    ours = script(FAKE.replace("KIND", "'ours'"), "ours.py")
    monkeypatch.setattr(learner, "UPDATES", ours)
    peer(FAKE.replace("KIND", "'padded'"))
    return peer


def test_speeds_count_scored_tokens_and_ratios_are_medians_over_turns(fakes, place):
    table = run(place, STUDY)
    first, second = table.rows
    assert first.speed(FULL) == 12 / 4.0
    assert first.speed(OURS) == (12 / 1.0 + 12 / 2.0) / 2
    assert first.ratio(FULL) == (4.0 + 2.0) / 2
    assert second.ratio(PADDED) == (6.0 + 3.0) / 2
    result = table.result()
    assert result.ratio == pytest.approx((6.0 + 3.0) / 2)
    assert result.ours == pytest.approx((12 / 1.0 + 12 / 2.0) / 2)  # both shapes score 12 tokens
    assert result.settings["(4, 3, 2): ratio to padded rows"] == 4.5
    assert json.loads(result.json())["peers"][FULL] == pytest.approx(3.0)
    assert "(2, 6, 2)" in table.text()


def test_sides_that_train_different_parameters_are_not_compared(fakes, place):
    fakes(FAKE.replace("KIND", "'padded'").replace('"num_trainable": 10', '"num_trainable": 12'))
    with pytest.raises(RunFailed, match="trains 12 parameters, ours 10"):
        run(place, STUDY)


def test_the_least_work_is_the_hand_worked_one():
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2,
    )  # fmt: skip
    frozen = 3 * (32 * 32 + 32 * 16 + 32 * 16 + 32 * 32 + 3 * 32 * 48)
    adapter = 3 * 2 * (64 + 48 + 48 + 64 + 3 * 80)
    tokens, scored = 2 * 5 + 2 * 4 * 7, 2 * 4 * 7
    expected = tokens * (4 * frozen + 6 * adapter) + scored * 4 * 32 * 64
    assert shared_flops(config, Shape(5, 7, 4, groups=2), rank=2) == expected


def test_attempts_have_the_shape_asked_for():
    batch = attempts(Shape(5, 7, 4, groups=2), vocabulary=50)
    assert batch.lengths.tolist() == [12] * 8
    assert batch.mask.sum(1).tolist() == [7] * 8
    assert batch.group.tolist() == [0] * 4 + [1] * 4
    assert (batch.tokens[0, :5] == batch.tokens[3, :5]).all()
    assert (batch.tokens[0, :5] != batch.tokens[4, :5]).any()
    assert (batch.advantages != 0).equal(batch.mask)


def test_shapes_are_read_from_text():
    assert read_shapes("64,32,8,4 1024,256,8") == (Shape(64, 32, 8, 4), Shape(1024, 256, 8, 1))


@pytest.mark.parametrize("text", ["64", "64,32", "64,32,1", "64,x,8", "64,32,8,0", "1,2,3,4,5", "64,-2,8"])
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ConfigError, match="is not a shape"):
        read_shapes(text)


@pytest.mark.slow
def test_all_sides_train_the_tiny_model(place):
    table = run(place, learner.QUICK)
    assert {side: len(row.updates(side)) for row in table.rows for side in (OURS, FULL, PADDED)} == {
        OURS: 2, FULL: 1, PADDED: 1,
    }  # fmt: skip
