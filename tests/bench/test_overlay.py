from pathlib import Path

import pytest

from posttrain.bench import overlay as module
from posttrain.bench.overlay import command, overlay, peer_script
from posttrain.errors import ConfigError


def filled(folder: Path, version: str) -> Path:
    (folder / "trl").mkdir(parents=True)
    (folder / "trl" / "__init__.py").touch()
    (folder / f"trl-{version}.dist-info").mkdir()
    return folder


@pytest.fixture
def complete(monkeypatch):
    monkeypatch.setattr(module, "NEEDED", ("json",))


def test_a_folder_with_the_right_series_is_taken_with_its_version(tmp_path, complete):
    assert overlay(filled(tmp_path, "1.16.3")).version == "1.16.3"


def test_an_empty_folder_is_refused_with_the_command_that_fills_it(tmp_path):
    with pytest.raises(ConfigError, match="holds no TRL") as caught:
        overlay(tmp_path)
    assert command(tmp_path) in str(caught.value)
    assert "--no-deps 'trl==1.16.*'" in command(tmp_path)


@pytest.mark.parametrize("version", ["1.15.0", "1.160.0", "2.16.0"])
def test_another_series_is_refused_by_name(tmp_path, complete, version):
    with pytest.raises(ConfigError, match=f"holds TRL {version}, the comparison is written for 1.16"):
        overlay(filled(tmp_path, version))


def test_what_trl_lacks_here_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "NEEDED", ("json", "no_such_module"))
    with pytest.raises(ConfigError, match="needs no_such_module"):
        overlay(filled(tmp_path, "1.16.0"))


@pytest.mark.parametrize("name", ["trl_step.py", "trl_gradient.py", "trl_curve.py"])
def test_the_peers_scripts_are_in_the_checkout_and_compile(name):
    compile(peer_script(name).read_text(), name, "exec")


def test_a_script_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"no_such\.py is not there"):
        peer_script("no_such.py")
