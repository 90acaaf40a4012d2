import json

import pytest

from posttrain.bench.result import compare


def test_the_json_has_exactly_the_agreed_keys_and_medians():
    result = compare(
        [10.0, 30.0, 20.0],
        [5.0, 10.0, 4.0],
        unit="tokens/s",
        settings={"k": 1},
        peers={"p": 5.0, "q": "absent"},
    )
    document = json.loads(result.json())
    assert set(document) == {"ours", "peer", "ratio", "unit", "settings", "peers", "spread"}
    assert (document["ours"], document["peer"], document["ratio"]) == (20.0, 5.0, 3.0)
    assert document["spread"] == {"ours": [10, 30], "peer": [4, 10], "ratio": [2, 5]}


def test_a_bigger_ratio_favours_us_also_where_less_is_better():
    result = compare([2.0], [6.0], unit="seconds", settings={}, peers={}, bigger_is_better=False)
    assert result.ratio == pytest.approx(3.0)


def test_an_absent_peer_gives_no_ratio():
    result = compare([2.0], [], unit="seconds", settings={}, peers={"p": "absent: not installed"})
    assert (result.peer, result.ratio) == (None, None)
    assert result.spread == {"ours": (2.0, 2.0)}
