"""What both sides of `bench loop` are told, and what they say: the words of the line protocol."""

from __future__ import annotations

from dataclasses import dataclass

from posttrain.models.dtype import DeviceName, DtypeName


@dataclass(frozen=True, slots=True)
class StepSettings:
    """One process's orders; the last two are its own, all others are the same for both sides.

    `micro_batch` counts rows for the peer and flat tokens for ours; None leaves it, as it does
    `checkpointing`, at the side's default.
    """

    model: str
    dtype: DtypeName
    device: DeviceName
    threads: int
    prompts: tuple[str, ...]
    attempts: int
    tokens: int
    rank: int
    alpha: int
    learning_rate: float
    seed: int
    max_steps: int
    micro_batch: int | None = None
    checkpointing: bool | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a process says once it is ready; `rows` counts the attempts of one optimizer step."""

    version: str
    torch: str
    num_trainable: int
    micro_batch: int
    rows: int
    checkpointing: bool
    threads: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one optimizer step took; `prompts` is a digest of the prompts' tokens.

    `cpu_seconds` adds up all threads: less than the wall's times threads where the machine was busy.
    """

    seconds: float
    cpu_seconds: float
    sampling_seconds: float
    prompts: str
    num_tokens: int
    peak_bytes: int

    @property
    def training_seconds(self) -> float:
        """Return the time of everything that is not sampling."""
        return self.seconds - self.sampling_seconds
