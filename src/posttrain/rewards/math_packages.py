"""Pack the installed math packages into one archive that travels with a verdict into its box.

A box sees the standard library only. An archive of compiled modules gives it exactly these packages, where
`import_folders` would show it all that is installed, data sets with answers among it.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import marshal
import zipfile
from importlib import metadata
from pathlib import Path

from posttrain.errors import ConfigError

PACKAGES = ("sympy", "mpmath", "antlr4", "latex2sympy2_extended", "math_verify")
_DISTRIBUTIONS = ("antlr4-python3-runtime", "sympy", "mpmath", "math-verify", "latex2sympy2_extended")
_LEFT_OUT = frozenset({"tests", "benchmarks", "antlr4_9_3", "antlr4_11_0"})


@functools.cache
def packed() -> bytes:
    """Return a zip archive of the packages, compiled for this interpreter; takes seconds, once.

    Raises ConfigError where math-verify is not installed.
    """
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _DISTRIBUTIONS:  # latex2sympy2 asks which version of antlr4 it stands on
            stem, version = name.replace("-", "_"), _version(name)
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            _add(archive, f"{stem}-{version}.dist-info/METADATA", text.encode())
        for name in PACKAGES:
            _add_package(archive, name)
    return found.getvalue()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"{name} is not installed, so nothing compares mathematical answers",
            key="use",
            hint="pip install 'posttrain[tasks]'",
        ) from error


def _add_package(archive: zipfile.ZipFile, name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    assert spec.origin is not None, name
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root.parent)
        if not _LEFT_OUT.intersection(inside.parts):
            _add(archive, f"{inside.with_suffix('.pyc')}", _compiled(path, str(inside)))


def _compiled(path: Path, shown: str) -> bytes:
    """Return a module's bytecode, as an import without its source accepts it."""
    kept = Path(importlib.util.cache_from_source(str(path)))
    ready = kept.read_bytes() if kept.exists() else b""
    if ready[:4] == importlib.util.MAGIC_NUMBER and _is_current(ready, path):
        code = marshal.loads(ready[16:])
    else:
        code = compile(path.read_bytes(), shown, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little") + bytes(8)  # by hash, not checked (PEP 552)
    return importlib.util.MAGIC_NUMBER + unchecked + marshal.dumps(code)


def _is_current(ready: bytes, path: Path) -> bool:
    """Tell whether kept bytecode was made of this source, by its date and size."""
    status = path.stat()
    made_of = (int.from_bytes(ready[start : start + 4], "little") for start in (4, 8, 12))
    return tuple(made_of) == (0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # A fixed date: equal packages give equal archives.
    archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
