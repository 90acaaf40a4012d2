"""Find out which levels of confinement this machine really has, by trying each one in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

import posttrain
from posttrain.errors import ConfigError
from posttrain.sandbox import bubblewrap
from posttrain.sandbox.confine import Level, Rules, default_readable, own_user
from posttrain.sandbox.confine.syscalls import machine
from posttrain.sandbox.interpreter import base_python

_PROBE_WORKER = 999  # its user is no real worker's
_TIMEOUT_SECONDS = 60
_MISSING_BY_ABI = (
    (2, "moving files between folders of the box fails"),
    (3, "truncating is closed by the system call filter instead"),
    (5, "requests to devices are closed by the system call filter instead"),
    (6, "processes of a command may not signal each other, unless started as root"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What trying one level showed: the walls that held, and why and how to mend what did not."""

    level: Level
    available: bool
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    reason: str = ""
    remedy: str = ""


def survey(allow_wheel: bool = False) -> tuple[Finding, ...]:
    """Try every level, weakest first; takes about a second."""
    nothing = Finding(
        Level.NONE, True, lacks=("every wall",), remedy="never run model-written code like this"
    )
    return nothing, *(examine(level, allow_wheel) for level in Level if level > Level.NONE)


def best(min_level: Level, allow_wheel: bool = False) -> Level:
    """Return the strongest level that holds here; raise ConfigError if it is below `min_level`."""
    findings = survey(allow_wheel)
    found = max(finding.level for finding in findings if finding.available)
    if found >= min_level:
        return found
    missing = next(finding for finding in findings if finding.level == min_level)
    raise ConfigError(
        f"this machine has no confinement of level {min_level.name} ({missing.reason}), only {found.name}",
        key="sandbox.min_level",
        hint=missing.remedy[:1].upper() + missing.remedy[1:],
    )


def examine(level: Level, allow_wheel: bool = False) -> Finding:
    """Try one level in a fresh process."""
    try:
        machine()
    except OSError as error:
        return Finding(level, False, reason=str(error), remedy="use a remote sandbox or a Linux machine")
    program = bubblewrap.find(allow_wheel) if level >= Level.NAMESPACES else ""
    if program is None:
        return Finding(
            level,
            False,
            reason="there is no bwrap program",
            remedy="install the system's package bubblewrap",
        )
    with tempfile.TemporaryDirectory(prefix="posttrain-probe-") as folder:
        return _try(level, program, Path(folder))


def worker_python() -> list[str]:
    """Return the words that start this interpreter with nothing but the standard library."""
    return [base_python(), "-S", "-P"]


def worker_paths() -> tuple[str, ...]:
    """List what a worker must see to import the sandbox: the package's folder and the standard library."""
    package = str(Path(posttrain.__file__).parent.parent)
    return package, sysconfig.get_path("stdlib"), os.path.dirname(base_python())


def _try(level: Level, program: str, folder: Path) -> Finding:
    folder.chmod(0o755)
    box, canary = folder / "box", folder / "canary"
    box.mkdir()
    canary.write_text("outside")
    uid = own_user(_PROBE_WORKER)
    if uid is not None:
        os.chown(box, uid, uid)
    rules = Rules(level, "function", default_readable(), (str(box),), uid=uid)
    prefix = bubblewrap.command(rules, program, worker_paths()) if program else []
    words = [
        *prefix,
        *worker_python(),
        "-m",
        "posttrain.sandbox.confine.attempt",
        rules.to_json(),
        str(canary),
    ]
    try:
        done = subprocess.run(
            words,
            env={"PYTHONPATH": worker_paths()[0]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Finding(level, False, reason="the trial did not end", remedy="try again on an idle machine")
    if done.returncode != 0 or not done.stdout:
        return _failed(level, done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"])
    return _judge(level, json.loads(done.stdout))


def _judge(level: Level, report: dict[str, object]) -> Finding:
    walls, abi = report["walls"], report["abi"]
    assert isinstance(walls, dict)
    assert isinstance(abi, int)
    broken = [wall for wall, held in walls.items() if not held]
    if broken or not walls:
        return _failed(level, ["these walls did not hold: " + ", ".join(broken)])
    lacks = [text for since, text in _MISSING_BY_ABI if level >= Level.LANDLOCK and abi < since]
    has = [*walls, *([f"Landlock ABI {abi}"] if level >= Level.LANDLOCK else [])]
    if report["signals"]:
        has.append("a run is killed at once")
    return Finding(level, True, tuple(has), tuple(lacks))


_REMEDIES = {
    Level.LIMITS: "allow the seccomp system call, for instance by the container's security profile",
    Level.LANDLOCK: (
        "use Linux 5.13 or newer with Landlock switched on (lsm=landlock,… on the kernel's command line) and "
        "a container profile that allows its system calls"
    ),
    Level.NAMESPACES: (
        "allow user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone or AppArmor's "
        "rule for bwrap; a container needs a profile that allows them), or accept level LANDLOCK"
    ),
}


def _failed(level: Level, lines: list[str]) -> Finding:
    return Finding(level, False, reason=lines[-1], remedy=_REMEDIES[level])
