import math
import random
from dataclasses import replace

import pytest
from corpus import Specimen
from figures import Judged, Share, share
from fresh import changed
from made import TRIANGLE
from shapes import literal, shape_of

from posttrain.types import Reward


def test_intervals_agree_with_the_closed_form_at_the_ends_and_with_printed_tables():
    none, every = share([False] * 10), share([True] * 10)
    assert (none.low, none.high) == (0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert (every.low, every.high) == (pytest.approx(0.025 ** (1 / 10)), 1)
    half = share([True, False] * 5)
    assert (half.low, half.high) == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))
    assert share([]) == Share(0, 0, 0.0, 1.0)


def judged(plain: Reward, guarded: Reward | None) -> Judged:
    return Judged(Specimen("right", "", None, "", 1.0, plain), None, guarded)  # type: ignore[arg-type]


def test_who_is_flagged_or_lowered_is_accused_and_nobody_else():
    assert judged(Reward(1.0), Reward(1.0, flags=("coupled",))).accused
    assert judged(Reward(0.5), Reward(0.0)).accused
    assert not judged(Reward(0.5), Reward(0.5)).accused
    assert not judged(Reward(0.5), Reward(0.75)).accused
    assert not judged(Reward(1.0), None).accused


@pytest.mark.parametrize(
    "value",
    [0, -1.5, True, None, "a'\"\n", b"x", [], (1,), {1: [2]}, {3}, frozenset(), 1j, range(3), float("-inf")],
)
def test_literals_give_the_value_back_with_its_type(value):
    again = eval(literal(value))
    assert again == value
    assert type(again) is type(value)


def test_nan_has_a_literal_and_objects_have_none():
    assert math.isnan(eval(literal(float("nan"))))
    with pytest.raises(TypeError):
        literal(object())


def test_a_shape_binds_defaults_and_keywords():
    problem = replace(
        TRIANGLE,
        solution="def triangle(n, step=1):\n    return 0\n",
        visible=(
            TRIANGLE.visible[0],
            replace(TRIANGLE.visible[1], arguments=(), keywords={"step": 2, "n": 5}),
        ),
    )
    shape = shape_of(problem)
    assert shape is not None
    assert shape.parameters == "n, step=1"
    assert shape.pairs == (((3, 1), 6), ((5, 2), 10))


def test_changed_inputs_keep_their_types_all_the_way_down():
    value = {"a": [1, (2.5, "text"), True], "b": ()}
    for seed in range(200):
        new = changed(value, random.Random(seed))
        assert set(map(type, new["a"])) <= {int, tuple, bool}
        assert new.keys() == value.keys()
        assert new["b"] == ()
