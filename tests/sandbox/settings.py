"""The settings that tests of confinement run in: as strong as the machine has, as weak as is supported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import Setting

from posttrain.sandbox.bubblewrap import find
from posttrain.sandbox.confine import Level
from posttrain.sandbox.probe import examine

MASKED = (1, 3, 5)

HARDEST = Setting(abi=1, container=True)
"""The oldest Landlock, in a container, as the same user as the worker: the filter must close the rest."""

_HAS_NAMESPACES = find() is not None and examine(Level.NAMESPACES).available
_NAMESPACES = pytest.param(
    Setting(Level.NAMESPACES),
    marks=pytest.mark.skipif(not _HAS_NAMESPACES, reason="bubblewrap does not work here"),
)
CHECKED = [Setting(), HARDEST, _NAMESPACES]
_SLOW = [Setting(abi=abi) for abi in MASKED]
EVERY = [
    *CHECKED, Setting(container=True), Setting(abi=3, container=True), Setting(abi=5, container=True),
    *(pytest.param(setting, marks=pytest.mark.slow) for setting in _SLOW),
]  # fmt: skip
"""As `CHECKED`, and each older Landlock; with a user of one's own (`slow`) nothing new is expected."""
IS_ROOT = os.geteuid() == 0
