"""Which Python runs untrusted code: the one beneath a virtual environment, so packages are out of reach."""

from __future__ import annotations

import os
import sys


def base_python() -> str:
    """Return the program that a virtual environment was made from, whether it links to it or holds a copy."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
