"""Write a new domain package: check its name, fill the templates in, never touch what is there."""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template
from types import MappingProxyType

from posttrain import __version__
from posttrain.errors import InputError

TEMPLATES = Path(__file__).with_name("templates")
NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
MAX_LENGTH = 50

FILES: Mapping[str, str] = MappingProxyType({
    "pyproject.toml": "pyproject.toml.template",
    "README.md": "README.md.template",
    "train.toml": "train.toml.template",
    "{package}/__init__.py": "init.py.template",
    "{package}/domain.py": "domain.py.template",
    "{package}/verifier.py": "verifier.py.template",
    "tests/test_domain.py": "test_domain.py.template",
})  # fmt: skip
"""Path in the new folder → template."""


def create(name: str, parent: Path) -> Path:
    """Return the folder `parent`/`name`, just written; raise InputError where that cannot be.

    The package in it is `name` with underscores. The folder appears whole or not at all.
    """
    package = package_of(name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} exists already. Choose another name, or another --dir.")
    if not parent.is_dir():
        raise InputError(f"--dir: {parent} is not a folder. Make it first, or choose another.")
    values = {"name": name, "package": package, "version": __version__}
    with tempfile.TemporaryDirectory(dir=parent, prefix=f".{name}-") as aside:
        made = Path(aside) / name
        for path, template in FILES.items():
            target = made / path.format(package=package)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(filled(template, values), encoding="utf-8")
        os.rename(made, folder)
    return folder


def package_of(name: str) -> str:
    """Return the import name for a project's name; raise InputError where it cannot be one."""
    package = name.replace("-", "_")
    if not NAME.fullmatch(name) or len(name) > MAX_LENGTH:
        raise InputError(
            f"{name!r} is not a name. Use up to {MAX_LENGTH} small letters and digits, a letter first, "
            "words joined by - or _, such as unit-conversion."
        )
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in ("posttrain", "tests"):
        raise InputError(f"{name!r} would hide a name of Python's own or of this project. Choose another.")
    if _installed(package):
        raise InputError(f"{name!r}: a module {package!r} is installed already. Choose another name.")
    return package


def next_steps(folder: Path) -> str:
    """Return what to do with a folder that `create` wrote."""
    package = package_of(folder.name)
    return (
        f"wrote {folder}\n"
        f"  cd {folder}\n"
        f"  posttrain check {package}.domain:domain    does it keep the contract of a domain?\n"
        "  python -m pytest                        its own tests\n"
        "  posttrain train train.toml              the first run, on a tiny model\n"
        f"Then write your own tasks into {package}/domain.py and your own verdict into {package}/verifier.py."
    )


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template's text with its $names filled in."""
    return Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
