"""JSON that is lossless or refused."""

import json
import math
import random
import struct

import pytest

from posttrain.errors import InputError
from posttrain.records import exact_json


def bits(value):
    return struct.pack("<d", value)


def test_random_floats_keep_every_bit():
    draw = random.Random(0)
    values = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(2000)]
    values = [v for v in values if not math.isnan(v)] + [0.0, -0.0, 5e-324, math.inf, -math.inf]
    assert [bits(v) for v in exact_json.loads(exact_json.dumps(values))] == [bits(v) for v in values]


def test_not_a_number_comes_back_and_the_text_is_valid_json():
    text = exact_json.dumps({"loss": math.nan})
    assert json.loads(text, parse_constant=pytest.fail) == {"loss": {"$float": "nan"}}
    assert math.isnan(exact_json.loads(text)["loss"])


@pytest.mark.parametrize("value", [
    {"$float": "nan"}, {"$float": 1}, {"$object": {"$float": "inf"}}, {"$object": {"$object": {}}}, 
    {"$float": 1, "b": 2}, {"a": [{"$float": "x"}]}, "\ud800 \u2028 é", 2**80, True, None, [[], {}, ""],
])  # fmt: skip
def test_what_looks_like_a_mark_or_is_odd_comes_back_as_it_was(value):
    assert exact_json.loads(exact_json.dumps(value)) == value


def test_a_value_that_json_cannot_hold_is_named():
    with pytest.raises(InputError, match=r"value\.a\[1\]\.b is a bytes"):
        exact_json.dumps({"a": [0, {"b": b""}]})
    with pytest.raises(InputError, match="the key 3, a int"):
        exact_json.dumps({"a": {3: "x"}})


def test_a_bare_nan_is_not_json():
    with pytest.raises(ValueError, match="NaN"):
        exact_json.loads("[NaN]")
