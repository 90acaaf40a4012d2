import json

import pytest

from posttrain.bench import parity
from posttrain.bench.overlay import ABSENT
from posttrain.bench.parity import PEER, Curve, Curves, Study, run

STUDY = Study(seeds=3, steps=6, groups=1, attempts=2)


def curve(*rewards):
    return Curve(rewards, 0)


def curves(ours, peer):
    return Curves(STUDY, tuple(curve(*r) for r in ours), tuple(curve(*r) for r in peer))


def test_final_reward_and_area_are_means_over_the_last_and_over_all_steps():
    one = curve(0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert one.final == pytest.approx(0.3)
    assert one.area == pytest.approx(0.25)


def test_the_difference_over_seeds_has_the_t_interval_worked_by_hand():
    found = curves([[0.5], [0.6], [0.7]], [[0.4], [0.4], [0.4]])
    gap = found.difference(lambda c: c.final)
    # Differences 0.1, 0.2, 0.3: s = 0.1, and t(2) at 97.5 % is 4.302653.
    assert gap.mean == pytest.approx(0.2)
    assert gap.high - gap.mean == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-6)


def test_ours_is_worse_only_where_an_interval_lies_below_zero():
    assert curves([[0.4], [0.6]], [[0.5], [0.52]]).no_worse
    assert not curves([[0.1], [0.12]], [[0.5], [0.52]]).no_worse
    assert "ours is worse" in curves([[0.1], [0.12]], [[0.5], [0.52]]).text()


def test_the_json_has_areas_and_both_differences():
    result = json.loads(curves([[0.4], [0.6], [0.8]], [[0.4], [0.4], [0.4]]).result().json())
    assert (result["ours"], result["peer"]) == (0.6, 0.4)
    assert result["settings"]["area_difference"] == pytest.approx(0.2)
    assert result["settings"]["no_worse"] is True


def test_our_side_trains_alone_where_trl_is_absent():
    found = run(Study(seeds=1, steps=2, groups=1, attempts=2), None)
    assert len(found.ours[0].rewards) == 2
    assert found.result().peers == {PEER: ABSENT}
    assert ABSENT in found.text()


@pytest.mark.slow
def test_trl_samples_the_same_number_of_batches(trl):
    found = run(parity.QUICK, trl)
    assert [len(c.rewards) for c in found.peer] == [len(c.rewards) for c in found.ours] == [3, 3]
    assert all(0 <= reward <= 1 for c in found.peer for reward in c.rewards)
