"""Each flag has its response, and the harshest one holds."""

import pytest

from posttrain.errors import ConfigError
from posttrain.rewards.integrity.settings import FLAGS, Integrity, answered
from posttrain.types import QUARANTINE, Reward


def test_each_response_does_what_it_says() -> None:
    reward = Reward(0.8, {"hidden": 0.8}, by_turn=(0.5, 0.3))
    zero = answered(reward, ("coupled",), {"coupled_bits": 12.0}, Integrity())
    assert (zero.value, zero.flags, zero.parts) == (0.0, ("coupled",), {"hidden": 0.8, "coupled_bits": 12.0})
    assert zero.by_turn == (0.0, 0.0)
    assert answered(reward, ("coupled",), {}, Integrity(coupled="penalty", penalty=-0.5)).value == -0.5
    kept = answered(reward, ("coupled",), {}, Integrity(coupled="keep"))
    assert (kept.value, kept.flags, kept.by_turn) == (0.8, ("coupled",), (0.5, 0.3))
    away = answered(reward, ("coupled",), {}, Integrity(coupled="quarantine"))
    assert (away.value, away.flags) == (0.0, ("coupled", QUARANTINE))


def test_the_harshest_response_holds_and_lower_values_stay() -> None:
    how = Integrity(coupled="zero", opaque="penalty", penalty=-2.0)
    assert answered(Reward(1.0), ("coupled", "opaque"), {}, how).value == -2.0
    assert answered(Reward(-1.0), ("coupled",), {}, how).value == -1.0


def test_flags_of_the_sandbox_and_of_others_are_seen_too() -> None:
    how = Integrity(tampered="penalty")
    assert answered(Reward(0.0, flags=("tampered",)), (), {}, how).value == -1.0
    assert answered(Reward(0.7, flags=("mine",)), (), {}, how) == Reward(0.7, flags=("mine",))


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_has_a_setting(name: str) -> None:
    how = Integrity(**{name: "penalty"})
    assert answered(Reward(1.0), (name,), {}, how).value == -1.0  # type: ignore[arg-type]


def test_a_number_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="confirm"):
        Integrity(confirm=1.5)
