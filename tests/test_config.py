"""Configuration: what is accepted, and that every mistake names file, key and the way out."""

import dataclasses
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import Field

from posttrain.config import build, construct, read, to_plain, to_toml
from posttrain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Clip:
    low: float = 0.2
    high: float = 0.28


@dataclass(frozen=True, slots=True)
class Learner:
    lr: float
    steps: int = 10
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    clip: Clip | None = field(default_factory=Clip)
    warmup: int | None = 3
    betas: tuple[float, float] = (0.9, 0.95)
    targets: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    shared: bool = True
    folder: Path | None = None
    derived: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class Checked:
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    either: int | str = 1

    def __post_init__(self) -> None:
        if self.either == "odd":
            raise ValueError("either must not be odd")


@dataclass(frozen=True, slots=True)
class Loud:
    name: str
    level: int = 0


def loud(name: str, *, level: int = 1) -> Loud:
    return Loud(name, level)


def anything(**settings: Any) -> dict[str, Any]:
    return settings


def named_set(name: str, *, level: int = 0, **settings: float) -> dict[str, Any]:
    if level > 5:
        raise ConfigError("there are 5 levels", key="level", hint="Lower it")
    return {"name": name, "level": level, **settings}


async def is_short(trajectory: object) -> bool:
    return trajectory is not None


def needs_missing() -> None:
    raise ModuleNotFoundError("No module named 'reasoning_gym'", name="reasoning_gym")


def failing(build_it: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        build_it()
    return str(caught.value)


def learner(**data: Any) -> Learner:
    return build(Learner, {"lr": 1e-4, **data}, source="run.toml", key="learner")


def toml(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


# --- reading -------------------------------------------------------------------------------------


def test_overrides_are_read_as_toml_and_else_as_text(tmp_path: Path) -> None:
    path = toml(
        tmp_path, "seed = 1\n[model]\nsource = 'tiny'\n[[domains]]\nlevel = 1\n[[domains]]\nlevel = 1\n"
    )
    overrides = [
        "seed=7", "model.source=smollm2-135m", "model.lora.rank=8", "domains.1.level=2",
        "lr=1e-4", "tags=['a', 'b']", "on=false", "note=a=b", "empty=", "quoted='7'",
    ]  # fmt: skip
    assert read(path, overrides) == {
        "seed": 7,
        "model": {"source": "smollm2-135m", "lora": {"rank": 8}},
        "domains": [{"level": 1}, {"level": 2}],
        "lr": 1e-4,
        "tags": ["a", "b"],
        "on": False,
        "note": "a=b",
        "empty": "",
        "quoted": "7",
    }


def test_a_line_break_in_an_override_brings_no_second_key(tmp_path: Path) -> None:
    assert read(toml(tmp_path, ""), ["a=1\nb=2"]) == {"a": "1\nb=2"}


def test_wrong_toml_names_file_and_line(tmp_path: Path) -> None:
    path = toml(tmp_path, "seed = 1\nlr 3\n")
    text = failing(lambda: read(path))
    assert str(path) in text
    assert "line 2" in text


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "gone.toml: cannot be read: No such file" in failing(lambda: read(tmp_path / "gone.toml"))
    assert str(tmp_path) in failing(lambda: read(tmp_path))


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"a = '\xff'")
    assert "is not valid TOML" in failing(lambda: read(path))


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed", "not of the form key.path=value"),
        ("=3", "not of the form key.path=value"),
        ("a..b=3", "not of the form key.path=value"),
        ("seed.x=3", "seed: override 'seed.x=3' reaches into a value, 1"),
        ("domains.1.level=3", "'1' is no item of a list of 1"),
        ("domains.first=3", "'first' is no item of a list of 1"),
        ("domains.-1=3", "'-1' is no item of a list of 1"),
    ],
)
def test_a_wrong_override_is_told(tmp_path: Path, override: str, told: str) -> None:
    path = toml(tmp_path, "seed = 1\n[[domains]]\nlevel = 1\n")
    assert told in failing(lambda: read(path, [override]))


# --- building ------------------------------------------------------------------------------------


def test_a_table_becomes_a_nested_dataclass_with_defaults() -> None:
    made = learner(
        clip={"high": 1},
        betas=[0.5, 1],
        targets=["q", "v"],
        weights={"math": 2},
        folder="runs/a",
        schedule="linear",
    )
    assert made == Learner(
        1e-4, 10, "linear", Clip(0.2, 1.0), 3, (0.5, 1.0), ("q", "v"), {"math": 2.0}, True, Path("runs/a")
    )
    assert type(made.weights["math"]) is float
    assert learner() == Learner(1e-4)


def test_false_switches_an_optional_value_off() -> None:
    made = learner(clip=False, warmup=False)
    assert made.clip is None
    assert made.warmup is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"scedule": "linear"}, "scedule: unknown key. Did you mean 'schedule'? Known keys: betas"),
        ({"clip": {"hihg": 1}}, "clip.hihg: unknown key. Did you mean 'high'? Known keys: high, low"),
        ({"derived": 1}, "derived: unknown key"),
        ({"lr": "fast"}, "lr: expected a number, got 'fast' (text)"),
        ({"lr": True}, "lr: expected a number, got True"),
        ({"steps": True}, "steps: expected an integer, got True"),
        ({"steps": 1.5}, "steps: expected an integer, got 1.5 (number)"),
        ({"shared": 1}, "shared: expected true or false, got 1 (integer)"),
        ({"schedule": "cosin"}, "schedule: expected one of 'constant', 'linear', 'cosine', got 'cosin'"),
        ({"betas": [0.5]}, "betas: expected a list of 2: a number, a number, got [0.5] (list)"),
        ({"betas": [0.5, "x"]}, "betas.1: expected a number, got 'x' (text)"),
        ({"targets": "q"}, "targets: expected a list, each text, got 'q' (text)"),
        ({"weights": {"math": "x"}}, "weights.math: expected a number, got 'x' (text)"),
        ({"weights": [1]}, "weights: expected a table, got [1] (list)"),
        ({"clip": True}, "clip: expected Clip, got True"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_key_value_and_what_was_expected(data: dict[str, Any], told: str) -> None:
    assert f"run.toml: learner.{told}" in failing(lambda: learner(**data))


def test_a_missing_key_is_named_with_its_type() -> None:
    assert (
        failing(lambda: build(Learner, {}, source="run.toml"))
        == "run.toml: lr: is missing; expected a number"
    )


def test_constraints_and_the_part_s_own_checks_are_told_with_the_key() -> None:
    text = failing(lambda: build(Checked, {"share": 1.5}, source="run.toml", key="a"))
    assert text == "run.toml: a.share: must be less than or equal to 1, got 1.5 (number)"
    assert build(Checked, {"share": 1}, source="run.toml").share == 1.0
    text = failing(lambda: build(Checked, {"either": "odd"}, source="run.toml", key="a"))
    assert text == "run.toml: a: either must not be odd"


def test_of_several_types_the_exact_one_is_taken() -> None:
    assert build(Checked, {"either": "7"}, source="").either == "7"
    assert build(Checked, {"either": 7}, source="").either == 7
    assert "expected an integer or text, got [1] (list)" in failing(
        lambda: build(Checked, {"either": [1]}, source="")
    )


def test_a_type_that_no_file_can_hold_is_refused() -> None:
    class Seam(Protocol):
        def act(self) -> None: ...

    made = dataclasses.make_dataclass("Holder", [("seam", Seam), ("items", Sequence[int])])
    assert "expected Seam, got 'x' (text)" in failing(
        lambda: build(made, {"seam": "x", "items": []}, source="")
    )


# --- parts ---------------------------------------------------------------------------------------

TABLE = {
    "clip": f"{__name__}:Clip",
    "generated": f"{__name__}:loud",
    "anything": f"{__name__}:anything",
    "set": f"{__name__}:named_set",
    "needy": f"{__name__}:needs_missing",
}


@pytest.fixture(autouse=True)
def the_import_path_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def part(spec: Mapping[str, Any] | str, source: str = "run.toml") -> object:
    return construct(spec, TABLE, source=source, key="algorithm", expected="an algorithm")


def test_a_short_name_is_looked_up_and_given_its_settings() -> None:
    assert part({"use": "clip", "high": 0.3}) == Clip(0.2, 0.3)
    assert part("clip") == Clip()
    assert part({"use": "anything", "a": [1]}) == {"a": [1]}


def test_what_follows_a_short_name_is_the_first_argument() -> None:
    assert part("generated:chain_sum") == Loud("chain_sum", 1)
    assert part({"use": "generated:chain_sum", "level": 2}) == Loud("chain_sum", 2)


def test_open_keyword_arguments_are_typed_too() -> None:
    assert part({"use": "set:gcd", "level": 2, "digits": 3}) == {"name": "gcd", "level": 2, "digits": 3.0}
    assert "algorithm.level: expected an integer" in failing(lambda: part({"use": "set:gcd", "level": "x"}))
    assert "algorithm.digits: expected a number" in failing(lambda: part({"use": "set:gcd", "digits": "x"}))


def test_a_part_s_own_error_is_given_its_place() -> None:
    told = failing(lambda: part({"use": "set:gcd", "level": 9}))
    assert told == "run.toml: algorithm: level: there are 5 levels. Lower it"


USERS = """
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Sql:
        tables: int = 1

    class Plain:
        def __init__(self, name: str) -> None:
            self.name = name

    class Space:
        sql = Sql(5)

    instance = Sql(3)

    async def is_short(trajectory, sandbox, files):
        return None
"""


def test_a_user_s_part_is_imported_from_the_configuration_s_folder(tmp_path: Path) -> None:
    (tmp_path / "users_parts.py").write_text(textwrap.dedent(USERS))
    source = str(tmp_path / "run.toml")
    assert to_plain(part({"use": "users_parts:Sql", "tables": 2}, source)) == {"tables": 2}
    assert to_plain(part("users_parts:instance", source)) == {"tables": 3}
    assert to_plain(part("users_parts:Space.sql", source)) == {"tables": 5}
    assert vars(part({"use": "users_parts:Plain", "name": "x"}, source)) == {"name": "x"}
    assert callable(part("users_parts:is_short", source))
    told = failing(lambda: part({"use": "users_parts:instance", "tables": 1}, source))
    assert "algorithm.tables: this part takes no settings. Remove 'tables'" in told
    assert "'users_parts' has no 'Sqll'. Did you mean 'Sql'?" in failing(
        lambda: part("users_parts:Sqll", source)
    )
    assert "algorithm.tabels: unknown key. Did you mean 'tables'?" in failing(
        lambda: part({"use": "users_parts:Sql", "tabels": 1}, source)
    )


class Speaker(Protocol):
    @property
    def volume(self) -> int: ...

    def say(self, text: str) -> None: ...


@dataclass(frozen=True)
class Radio:
    volume: int = 1

    def say(self, text: str) -> None: ...


def test_a_part_must_be_what_was_expected() -> None:
    table = {**TABLE, "radio": f"{__name__}:Radio"}
    assert construct("radio", table, source="", key="a", expected=Speaker) == Radio()
    assert construct("radio", table, source="", key="a", expected=Radio) == Radio()
    told = failing(lambda: construct("clip", table, source="run.toml", key="a", expected=Radio))
    assert told == "run.toml: a.use: 'clip' is not a Radio: it is a Clip"
    told = failing(lambda: construct("clip", table, source="run.toml", key="a", expected=Speaker))
    assert told == "run.toml: a.use: 'clip' is not a Speaker: it has no say, volume"


def test_a_missing_module_of_ours_names_its_extra() -> None:
    assert failing(lambda: part("needy")).endswith("Run: pip install 'posttrain[tasks]'")


def test_the_choices_are_listed_where_the_name_is_missing() -> None:
    assert "Known: anything, clip, generated, needy, set; or name your own" in failing(
        lambda: part({"high": 1})
    )


def test_a_user_s_file_never_hides_an_installed_module(tmp_path: Path) -> None:
    (tmp_path / "textwrap.py").write_text("dedent = 1")
    assert part("textwrap:dedent.__doc__", str(tmp_path / "run.toml")) == textwrap.dedent.__doc__


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "import reasoning_gim",
            "needs module 'reasoning_gim', which is not installed. Run: pip install reasoning_gim",
        ),
        ("def f(:", "importing 'broken_part' failed: SyntaxError"),
        ("1 / 0", "importing 'broken_part' failed: ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_does_not_import_is_told(
    tmp_path: Path, source: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_part.py").write_text(source)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    text = failing(lambda: part("broken_part:f", str(tmp_path / "run.toml")))
    assert "run.toml: algorithm.use: " in text
    assert told in text


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"high": 1}, "algorithm.use: is missing; expected the name of an algorithm."),
        ({"use": 3}, "algorithm.use: expected text, got 3 (integer)"),
        ("clop", "algorithm.use: 'clop' is not the name of an algorithm. Did you mean 'clip'?"),
        ({"use": "clip", "hihg": 1}, "algorithm.hihg: unknown key. Did you mean 'high'?"),
        ({"use": "clip", "high": "x"}, "algorithm.high: expected a number, got 'x' (text)"),
        ("generated", "algorithm.name: is missing; expected text"),
        ("generated:", "algorithm.use: nothing can stand after the colon, got ''"),
        ("anything:x", "algorithm.use: nothing can stand after the colon, got 'x'"),
        ({"use": "generated:a", "name": "b"}, "algorithm.name: is given twice: 'a' after the colon"),
        ("no_such_pkg.sql:Sql", "algorithm.use: there is no module 'no_such_pkg'. Install"),
        ("needy", "algorithm: needs module 'reasoning_gym', which is not installed. Run: pip"),
        (3, "algorithm: expected an algorithm: a table with `use`, got 3 (integer)"),
    ],
)  # fmt: skip
def test_a_wrong_part_is_told(spec: Any, told: str) -> None:
    assert f"run.toml: {told}" in failing(lambda: part(spec))


# --- plain data ----------------------------------------------------------------------------------


def test_a_resolved_configuration_survives_the_way_through_toml(tmp_path: Path) -> None:
    made = learner(clip=False, targets=["q"], weights={"math": 2.0}, folder="a/b")
    plain = to_plain(made)
    assert plain["clip"] is None
    assert plain["targets"] == ["q"]
    assert plain["folder"] == "a/b"
    del plain["derived"]
    path = toml(tmp_path, "")
    path.write_text(to_toml(plain))
    assert build(Learner, {**read(path), "folder": "a/b"}, source="") == made


def test_functions_and_sets_have_a_plain_form_and_other_objects_none() -> None:
    assert to_plain({"f": textwrap.dedent, "s": frozenset({"b", "a"})}) == {
        "f": "textwrap:dedent",
        "s": ["a", "b"],
    }
    with pytest.raises(TypeError, match="object has no plain form"):
        to_plain({"x": object()})
    with pytest.raises(TypeError, match="expected a dataclass or mapping, got 3"):
        to_plain(3)
