"""vLLM as a peer in sampling: it lives in an interpreter of its own and takes turns with ours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from posttrain.bench.child import Child, Program
from posttrain.bench.overlay import peer_script
from posttrain.errors import ConfigError, RunFailed
from posttrain.types import JSON

ABSENT = "absent: name an interpreter that has it, --vllm PYTHON"


@dataclass(frozen=True, slots=True)
class Ready:
    """What the peer says once its model is loaded."""

    version: str
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Wave:
    """One wave sampled by the peer; `scored` tells whether every token came with its log-probability."""

    seconds: float
    tokens: int
    scored: bool
    peak_bytes: int


class Vllm:
    """A running vLLM: call it to have one wave sampled, and get the tokens per second."""

    def __init__(self, child: Child[Ready, Wave], num_tokens: int) -> None:
        self._child, self._num_tokens = child, num_tokens

    @property
    def name(self) -> str:
        """Return the peer's name with its version."""
        return f"vllm {self._child.facts.version}"

    def __call__(self) -> float:
        wave = self._child.step()
        if wave.tokens != self._num_tokens or not wave.scored:
            raise RunFailed(f"{self.name} sampled {wave.tokens} tokens, {self._num_tokens} were asked for")
        return wave.tokens / wave.seconds


@contextmanager
def running(
    python: Path,
    model: str,
    prompts: Sequence[Sequence[int]],
    attempts: int,
    tokens: int,
    dtype: torch.dtype,
) -> Iterator[Vllm]:
    """Start vLLM under the interpreter `python` on the model in a folder, and end it afterwards.

    Raises ConfigError where the interpreter is not there, RunFailed where vLLM does not start.
    """
    if not os.access(python, os.X_OK) or python.is_dir():
        raise ConfigError(
            f"{str(python)!r} is no program",
            key="--vllm",
            hint="Name the Python interpreter of an environment in which vllm is installed.",
        )
    settings: dict[str, JSON] = {
        "model": model,
        "prompts": [list(prompt) for prompt in prompts],
        "attempts": attempts,
        "tokens": tokens,
        "dtype": str(dtype).removeprefix("torch."),
    }
    program = Program(
        name="vllm",
        script=str(peer_script("vllm_engine.py")),
        settings=settings,
        threads=torch.get_num_threads(),
        interpreter=str(python),
    )
    with Child(program, Ready, Wave) as child:
        yield Vllm(child, len(prompts) * attempts * tokens)
