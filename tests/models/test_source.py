from pathlib import Path

import pytest

from posttrain.errors import ConfigError
from posttrain.models.source import cache_folder, resolve


def test_the_cache_is_the_projects_own_then_the_users_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.delenv("POSTTRAIN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/h/.cache/posttrain")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/posttrain")
    monkeypatch.setenv("POSTTRAIN_CACHE", "/p")
    assert cache_folder() == Path("/p")


def test_tiny_is_made_once_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POSTTRAIN_CACHE", str(tmp_path / "new" / "cache"))
    folder = resolve("tiny")
    assert isinstance(folder, Path)
    assert (folder / "model.safetensors").is_file()
    changed = (folder / "config.json").stat().st_mtime_ns
    assert resolve("tiny") == folder
    assert (folder / "config.json").stat().st_mtime_ns == changed
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_folder_is_itself_and_a_hub_id_stays_a_hub_id(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert resolve(str(tmp_path)) == tmp_path
    assert resolve("HuggingFaceTB/SmolLM2-135M") == "HuggingFaceTB/SmolLM2-135M"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model.source: the folder .* has no config.json"):
        resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("smollm2_135m", "Did you mean 'smollm2-135m'?"),
        ("tinny", "Did you mean 'tiny'?"),
        ("zzz", "Known models: smollm2-135m, tiny."),
        ("./no/such/folder", "Known models"),
        ("", "Known models"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(source: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(source)
    assert hint in str(caught.value)
    assert caught.value.exit_code == 2
