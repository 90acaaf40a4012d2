"""The installer's choices, with a pip that only says what it was asked for."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "install.py"


@pytest.fixture
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("posttrain_install_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakePip:
    """Succeeds only on the given attempt; keeps what it was asked for."""

    def __init__(self, succeeds_on: int) -> None:
        self.succeeds_on = succeeds_on
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> bool:
        self.asked.append(arguments)
        return len(self.asked) == self.succeeds_on


def test_the_cpu_build_is_taken_from_pip_s_own_sources_first(install: ModuleType) -> None:
    pip = FakePip(succeeds_on=1)
    assert install.install_torch("cpu", "2.13.0", pip) == "torch==2.13.0+cpu from pip's own sources"
    assert pip.asked == [("torch==2.13.0+cpu",)]


def test_then_from_the_public_cpu_index(install: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    pip = FakePip(succeeds_on=2)
    assert "CPU index" in install.install_torch("cpu", "2.13.0", pip)
    assert f"--extra-index-url={install.CPU_INDEX}" in pip.asked[1]
    assert "torch==2.13.0+cpu" in pip.asked[1]
    assert "pip's own sources have no torch==2.13.0+cpu" in capsys.readouterr().out


def test_then_the_default_build_and_that_is_said(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(install, "works", lambda *command: False)
    pip = FakePip(succeeds_on=3)
    assert "default build" in install.install_torch("auto", "2.13.0", pip)
    assert pip.asked[2] == ("torch==2.13.0",)
    assert "several GB of CUDA" in capsys.readouterr().out


def test_where_a_gpu_answers_the_default_build_is_taken_at_once(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(install, "works", lambda *command: command == ("nvidia-smi",))
    pip = FakePip(succeeds_on=1)
    install.install_torch("auto", "2.13.0", pip)
    assert pip.asked == [("torch==2.13.0",)]


def test_an_interrupted_installation_counts_as_none(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(install, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(install, "python", lambda: Path(sys.executable))
    assert install.installed() == {}
    wanted = install.fingerprint(["dev", "tasks"], "auto")
    (tmp_path / "stamp").write_text(install.json.dumps(wanted))
    assert install.installed() == wanted
    (tmp_path / "unfinished").touch()
    assert install.installed() == {}


def test_another_extra_python_or_content_is_another_installation(install: ModuleType) -> None:
    wanted = install.fingerprint(["tasks"], "auto")
    assert install.fingerprint(["tasks"], "auto") == wanted
    assert install.fingerprint(["tasks", "dev"], "auto") != wanted
    assert install.fingerprint(["tasks"], "cpu") != wanted


def test_a_missing_program_does_not_work_and_a_present_one_does(install: ModuleType) -> None:
    assert not install.works("no-such-program-anywhere")
    assert not install.works(sys.executable, "-c", "raise SystemExit(1)")
    assert install.works(sys.executable, "-c", "")


def test_the_lock_names_no_machine_and_no_build() -> None:
    lock = (SCRIPT.parent.parent / "requirements.lock").read_text()
    assert "torch==" in lock
    assert [word for word in ("file:", "://", "+cpu", "index-url") if word in lock] == []
