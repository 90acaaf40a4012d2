"""Every attack fails, under every setting: no escape, no forged verdict, nothing left, nothing told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import pytest

from ..container import launching
from .corpus import BY_NAME

ROOT = Path(__file__).parents[3]
SETTINGS: dict[str, dict[str, object]] = {
    "landlock": {"min_level": "landlock"},
    "namespaces": {"min_level": "namespaces"},
    "container": {"min_level": "landlock"},
    "abi 1": {"min_level": "landlock", "landlock_abi": 1},
    "abi 3": {"min_level": "landlock", "landlock_abi": 3},
    "abi 5": {"min_level": "landlock", "landlock_abi": 5},
    "container, abi 1": {"min_level": "landlock", "landlock_abi": 1},
}
"""Name of a setting → the local sandbox's settings; those in a container run in the simulated one."""
WALLS = ("isolation", "integrity", "confidentiality")
"""Kinds that depend on the kernel's walls, and so on what an older kernel lacks."""


@final
@dataclass(slots=True)
class Host:
    """A process from which attacks are launched."""

    process: subprocess.Popen[str]
    errors: Path
    processes: int = field(init=False)

    def __post_init__(self) -> None:
        self.processes = self._answer("the start")["ready"]

    def launch(self, name: str) -> dict[str, object]:
        """Launch an attack and return the host's answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._answer(name)

    def close(self) -> None:
        """End the host."""
        self.process.communicate("\n", timeout=60)

    def _answer(self, name: str) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the host died of {name}: {self.errors.read_text()[-2000:]}"
        return dict(json.loads(line))


def start(setting: str, errors: Path) -> Host:
    """Start a host for a setting, or for none at all."""
    settings = "bare" if setting == "bare" else json.dumps({"workers": 1} | SETTINGS[setting])
    words = [sys.executable, "-m", "tests.sandbox.attacks.host", settings]
    process = subprocess.Popen(
        launching(*words) if "container" in setting or setting == "bare" else words,
        cwd=ROOT, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors.open("w"), text=True,
    )  # fmt: skip
    return Host(process, errors)


@final
class Hosts:
    """One host for each setting, started when first asked for; a host that died is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._hosts = folder, dict[str, Host]()

    def of(self, setting: str) -> Host:
        """Return the setting's living host."""
        host = self._hosts.get(setting)
        if host is None or host.process.poll() is not None:
            host = self._hosts[setting] = start(setting, self._folder / setting.replace(" ", "-"))
        return host

    def close(self) -> None:
        """End all hosts."""
        for host in self._hosts.values():
            if host.process.poll() is None:
                host.close()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    found = Hosts(tmp_path_factory.mktemp("hosts"))
    yield found
    found.close()


STRONG = ("namespaces", "container")
WEAK = ("container, abi 1", "abi 1", "abi 3", "abi 5")
AGEING = (
    "signal", "have a signal", "requests to", "reach the host", "connect in", "listen", "cut a file",
    "change",    "write to", "make files", "remove", "undo", "raise",
)  # fmt: skip
"""How the names of attacks begin whose outcome depends on what the kernel's Landlock knows."""


WARM_WALLS = [
    name
    for name, attack in BY_NAME.items()
    if attack.kind in WALLS and "as a command" not in attack.name and not attack.slow
]


def quick_settings(name: str) -> set[str]:
    """Return where an attack is tried by default; the slow tests try each one everywhere."""
    if BY_NAME[name].slow:
        return set()
    if name not in WARM_WALLS:
        return {"landlock"}
    if BY_NAME[name].name.startswith(AGEING):
        return set(SETTINGS)
    at = WARM_WALLS.index(name)
    return {"landlock", STRONG[at % len(STRONG)], WEAK[at // len(STRONG) % len(WEAK)]}


TRIALS = [
    pytest.param(
        setting,
        name,
        id=f"{setting}: {name}",
        marks=[] if setting in quick_settings(name) else pytest.mark.slow,
    )
    for setting in SETTINGS
    for name in BY_NAME
]


@pytest.mark.parametrize(("setting", "name"), TRIALS)
def test_an_attack_fails(hosts: Hosts, setting: str, name: str) -> None:
    answer = hosts.of(setting).launch(name)
    assert answer["broken"] == [], answer["seen"]


@pytest.mark.parametrize("name", [name for name, attack in BY_NAME.items() if attack.bare])
def test_the_same_attack_succeeds_without_a_sandbox(hosts: Hosts, name: str) -> None:
    answer = hosts.of("bare").launch(name)
    assert "nothing gives way" in answer["broken"], answer["seen"]  # type: ignore[operator]


def test_the_quick_trials_reach_every_setting_with_many_attacks_and_walls_in_three() -> None:
    chosen = {name: quick_settings(name) for name in BY_NAME}
    assert min(len(chosen[name]) for name in WARM_WALLS) >= 3
    assert all(sum(setting in settings for settings in chosen.values()) >= 50 for setting in SETTINGS)


def test_the_corpus_covers_every_kind() -> None:
    kinds = [attack.kind for attack in BY_NAME.values()]
    assert min(map(kinds.count, ("resources", "confidentiality", "integrity", "forgery", "isolation"))) >= 30
