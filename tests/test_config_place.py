"""A part can be told where its table stands, without a setting for it."""

from __future__ import annotations

import pytest

from posttrain.config import construct
from posttrain.config.wording import Place
from posttrain.errors import ConfigError

TABLE = {"part": f"{__name__}:part", "failing": f"{__name__}:failing"}


def part(size: int, place: Place = Place("", "")) -> tuple[int, Place]:
    return size, place


def failing(place: Place) -> None:
    raise place.at("size").error("is odd")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or __import__(__name__))


def make(spec: dict[str, object]) -> object:
    return construct(spec, TABLE, source="run.toml", key="domains.1", expected="a part")


def test_a_part_learns_its_place() -> None:
    assert make({"use": "part", "size": 3}) == (3, Place("run.toml", "domains.1"))


def test_the_place_is_no_setting() -> None:
    with pytest.raises(ConfigError, match=r"domains\.1\.place: unknown key.*Known keys: size$"):
        make({"use": "part", "size": 3, "place": "elsewhere"})


def test_what_a_part_says_of_its_place_is_not_wrapped_again() -> None:
    with pytest.raises(ConfigError, match=r"^run\.toml: domains\.1\.size: is odd$"):
        make({"use": "failing"})
