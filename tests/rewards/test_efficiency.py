"""A gain counts only where the interval of the ratio excludes 1."""

import math

import pytest

from posttrain.errors import RunFailed
from posttrain.protocols import Program, RunResult, Status
from posttrain.rewards.efficiency import compared, speed_of
from posttrain.sandbox.scripted import ScriptedSandbox


def ran(seconds: float, status: Status = "OK") -> RunResult:
    return RunResult(status, 0, b"out", b"", False, seconds, seconds, 0)


def test_the_interval_is_student_s_on_logarithms() -> None:
    found = compared(
        [(2.0, 1.0), (4.0, 1.0), (8.0, 1.0)]
    )  # logarithms 1, 2, 3 times log 2: mean 2, deviation 1
    assert found.ratio == pytest.approx(4.0)
    assert found.low == pytest.approx(4.0 / math.exp(4.303 * math.log(2) / math.sqrt(3)))


def test_noise_around_equal_speed_earns_nothing() -> None:
    found = compared([(1.0, 0.8), (0.8, 1.0), (1.0, 0.9)])
    assert (found.gain, found.score()) == (1.0, 0.0)


def test_steady_gains_grow_with_the_logarithm_up_to_the_cap() -> None:
    assert compared([(2.0, 1.0)] * 3).score(8.0) == pytest.approx(1 / 3)
    assert compared([(100.0, 1.0)] * 3).score(8.0) == 1.0
    assert compared([(1.0, 3.0)] * 3).score(8.0) == 0.0


async def test_rounds_take_turns_and_end_when_decided() -> None:
    # reference, candidate; candidate, reference; reference, candidate
    script = [ran(t) for t in (4.0, 1.0, 1.0, 4.0, 4.0, 1.0)]
    found = await speed_of(Program("python", "c"), Program("python", "r"), ScriptedSandbox(script))
    assert (found.ratio, found.num_rounds, found.output) == (pytest.approx(4.0), 3, b"out")


async def test_a_failing_candidate_ends_it_and_a_failing_reference_is_no_verdict() -> None:
    candidate, reference = Program("python", "c"), Program("python", "r")
    found = await speed_of(candidate, reference, ScriptedSandbox([ran(1.0), ran(1.0, "CPU_TIMEOUT")]))
    assert (found.failed, found.score()) == ("CPU_TIMEOUT", 0.0)
    for script in ([ran(1.0, "MEMORY")], [ran(1.0), ran(1.0, "INFRA")]):
        with pytest.raises(RunFailed):
            await speed_of(candidate, reference, ScriptedSandbox(script))
