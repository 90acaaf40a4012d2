"""What an engine may offer besides its protocol: to tell of each completion while its wave goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from posttrain.protocols import Completion, Engine, Request

Told = Callable[[int, Completion], None]
"""Takes a completion and its place in the wave; any thread may call it, and it must be quick."""


@runtime_checkable
class Telling(Engine, Protocol):
    """An engine that tells of each completion as it ends, so that verdicts need not wait for the wave."""

    async def generate_telling(self, wave: Sequence[Request], told: Told) -> list[Completion]:
        """Sample as `generate` does, and tell of each completion once before returning all of them."""
        ...
