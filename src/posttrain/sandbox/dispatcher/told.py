"""What a candidate says of itself: believed only to its disadvantage."""

from __future__ import annotations

import json
from dataclasses import dataclass

from posttrain.protocols import Status
from posttrain.sandbox.shown import shown
from posttrain.sandbox.worker.conversation import FAILED, READY


@dataclass(slots=True)
class Told:
    """Whether user code came to run, and why it failed, as the process tells it."""

    ready: bool = False
    status: Status | None = None
    text: str = ""

    def hear(self, kind: bytes, body: bytes) -> None:
        """Take in one frame."""
        if kind == READY:
            self.ready = True
        elif kind == FAILED:
            self.status, _, self.text = failure(body)


def failure(body: bytes) -> tuple[Status, tuple[str, ...], str]:
    """Read an account of an exception: status, class names, text."""
    try:
        data = json.loads(body)
        names = tuple(shown(str(name)[:200]) for name in data["names"][:20])
        status: Status = data["status"] if data["status"] in ("MEMORY", "COMPILE_ERROR") else "RUNTIME_ERROR"
        return status, names, shown(str(data["text"])[:4000])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "RUNTIME_ERROR", (), shown(body[:4000].decode(errors="replace"))
