"""Run code that nobody trusts: boxes on this machine, judged from outside.

    from posttrain.sandbox import Blocking, Limits, Program

    with Blocking() as sandbox:
        print(sandbox.run(Program("python", "print(6 * 7)")).stdout)

Names are loaded when they are first used: warm workers import parts of this package and must stay small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posttrain.protocols import (
        Case,
        CaseResult,
        Limits,
        Program,
        RunResult,
        Sandbox,
        Session,
        TestResult,
    )
    from posttrain.sandbox.blocking import Blocking
    from posttrain.sandbox.calls import Answer, Call, Runner
    from posttrain.sandbox.local import Local, LocalSandbox
    from posttrain.sandbox.session import LocalSession, Step, replay

_HOMES = {
    "posttrain.protocols": (
        "Case", "CaseResult", "Limits", "Program", "RunResult", "Sandbox", "Session", "TestResult",
    ),
    "posttrain.sandbox.blocking": ("Blocking",),
    "posttrain.sandbox.calls": ("Answer", "Call", "Runner"),
    "posttrain.sandbox.local": ("Local", "LocalSandbox"),
    "posttrain.sandbox.session": ("LocalSession", "Step", "replay"),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer", "Blocking", "Call", "Case", "CaseResult", "Limits", "Local", "LocalSandbox", "LocalSession",
    "Program", "RunResult", "Runner", "Sandbox", "Session", "Step", "TestResult", "replay",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
