"""Where an installed package keeps its sources, and what its metadata says; nothing is imported."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import metadata
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from posttrain.errors import InputError

STDLIB = "stdlib"
STDLIB_MODULES = (
    "_pydecimal", "collections", "difflib", "doctest", "enum", "heapq", "http.cookiejar",
    "importlib.metadata", "importlib.metadata._functools", "importlib.metadata._itertools", "ipaddress",
    "pickle", "pickletools", "secrets", "socket", "statistics", "subprocess", "textwrap", "typing",
)  # fmt: skip
"""Modules of the standard library in which functions have doctests."""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package: module names with their files, and what it is distributed under."""

    name: str
    version: str
    licence: str
    modules: dict[str, Path]


def find(name: str) -> Package:
    """Return the package of a distribution's or a top module's name, or `stdlib`.

    A top module may also lie in the working directory. Raises InputError where nothing of that name is
    there or it has no Python sources.
    """
    if name == STDLIB or name in STDLIB_MODULES:
        return _standard_library(STDLIB_MODULES if name == STDLIB else (name,))
    found = _distribution(name)
    modules = _installed(found) if found is not None else {}
    # Neither a folder of one's own nor an editable installation lists its files.
    modules = modules or _importable(name.replace("-", "_"))
    if not modules and found is None:
        raise InputError(_unknown(name))
    if not modules:
        raise InputError(f"package {name!r}: no Python sources come with it. Choose another package.")
    if found is None:
        return Package(name, "unknown", "unknown", modules)
    return Package(found.metadata["Name"], found.version, _licence(found), modules)


def _installed(found: metadata.Distribution) -> dict[str, Path]:
    files = [(file, Path(str(found.locate_file(file)))) for file in found.files or ()]
    modules = {
        ".".join(_parts(file.parts)): path
        for file, path in files
        if file.suffix == ".py" and ".." not in file.parts and path.is_file()
    }
    return dict(sorted(modules.items()))


def _importable(name: str) -> dict[str, Path]:
    """Return the modules of a top module that could be imported from here, which is not done."""
    if not name.isidentifier():
        return {}
    spec = PathFinder.find_spec(name, [str(Path.cwd())]) or find_spec(name)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    paths = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.py"))]
    if paths:
        return {".".join(_parts((name, *path.relative_to(folder).parts))): path for folder, path in paths}
    origin = Path(spec.origin) if spec and spec.origin else None
    return {name: origin} if origin is not None and origin.suffix == ".py" and origin.is_file() else {}


def _parts(parts: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of a module from the parts of its file's path."""
    *folders, last = parts
    yield from folders
    stem = last.removesuffix(".py")
    if stem != "__init__" or not folders:
        yield stem


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError):
        owners = metadata.packages_distributions().get(name, ())
        return metadata.distribution(owners[0]) if owners else None


def _unknown(name: str) -> str:
    owners = metadata.packages_distributions()
    known = sorted({STDLIB, *owners, *(owner for some in owners.values() for owner in some)})
    close = get_close_matches(name, known, 1)
    hint = f"Did you mean {close[0]!r}?" if close else f"Install it here first: pip install {name}"
    return f"package {name!r} is neither installed in this environment nor in this folder. {hint}"


def _licence(found: metadata.Distribution) -> str:
    """Return what the metadata says of the licence, in one line, or 'unknown'."""
    about = found.metadata
    said = next((about[key] for key in ("License-Expression", "License") if key in about), "")
    if said.strip() and len(said) < 100:
        return said.strip().splitlines()[0]
    kinds = [line for line in about.get_all("Classifier") or () if line.startswith("License ::")]
    return kinds[0].rpartition(":: ")[2] if kinds else "unknown"


def _standard_library(names: tuple[str, ...]) -> Package:
    root = Path(sysconfig.get_path("stdlib"))
    modules: dict[str, Path] = {}
    for name in names:
        stem = root.joinpath(*name.split("."))
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                modules[name] = path
    version = ".".join(map(str, sys.version_info[:3]))
    return Package(STDLIB, version, "PSF-2.0", modules)
