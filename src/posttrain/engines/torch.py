"""The in-process engine: samples from its own versioned copy of the weights, on CPU or GPU.

Work runs in one thread of its own, so the event loop stays free and waves and weight swaps queue up.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import torch
from transformers import PreTrainedModel

from posttrain.engines.cache import Layout, rounded
from posttrain.engines.slots import Slots, check
from posttrain.engines.telling import Told
from posttrain.engines.wave import Wave
from posttrain.errors import ConfigError
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import load_owned, twin
from posttrain.protocols import Completion, Request, Weights


@dataclass(frozen=True, slots=True)
class Torch:
    """Settings: most rows decoded at once, bytes for keys and values, tokens computed in one prefill.

    Fewer rows are used where `slots` rows of the wave's longest request would not fit `cache_bytes`.
    """

    slots: int = 64
    cache_bytes: int = 2 * 2**30
    prefill_tokens: int = 4096


class TorchEngine:
    """Sample waves from a copy of `model`'s adapters (or weights) over its shared frozen base.

    `ignore_stop` lets every completion run to its token limit, for measurements of equal lengths.
    """

    def __init__(
        self, model: LanguageModel, settings: Torch = Torch(), *, version: int = 0, ignore_stop: bool = False
    ) -> None:
        for key, value in asdict(settings).items():
            if value < 1:
                raise ConfigError(f"{value} must be at least 1", key=f"engine.{key}")
        module = twin(model.module)
        assert isinstance(module, PreTrainedModel)
        self._module, self._settings, self._version = module, settings, version
        self._context = model.context
        self._stop_tokens: frozenset[int] = frozenset() if ignore_stop else model.stop_tokens
        self._layout = Layout.of(module.config, model.dtype, model.device)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")

    @property
    def version(self) -> int:
        """Return the version of the weights that the next wave is sampled with."""
        return self._version

    async def generate(self, wave: Sequence[Request]) -> list[Completion]:
        """Sample one wave; results are aligned with it and depend on nothing but the wave and weights.

        Raises CapacityError for a prompt that fills the context or a row that exceeds the memory budget.
        Cancelling stops the wave after the token being decoded.
        """
        return await self._generate(wave, None)

    async def generate_telling(self, wave: Sequence[Request], told: Told) -> list[Completion]:
        """Sample as `generate` does; `told` is called on the engine's thread and must be quick."""
        return await self._generate(wave, told)

    async def _generate(self, wave: Sequence[Request], told: Told | None) -> list[Completion]:
        requests = tuple(wave)
        check(requests, self._context)
        cancelled = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._sample, requests, cancelled, told)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def load(self, weights: Weights, version: int) -> None:
        """Copy new weights in once the running wave has ended; no cache outlives a wave."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._load, weights, version)

    def close(self) -> None:
        """Wait for the running wave and end the engine's thread."""
        self._thread.shutdown()

    def _load(self, weights: Weights, version: int) -> None:
        load_owned(self._module, weights)
        self._version = version

    @torch.inference_mode()
    def _sample(
        self, wave: Sequence[Request], cancelled: threading.Event, told: Told | None
    ) -> list[Completion]:
        if not wave:
            return []
        slots = Slots(wave, self._rows(wave), self._context, self._stop_tokens, self._version, told)
        Wave(self._module, self._layout, slots, self._settings.prefill_tokens).run(cancelled.is_set)
        return [slots.results[i] for i in range(len(wave))] if not cancelled.is_set() else []

    def _rows(self, wave: Sequence[Request]) -> int:
        """Return the most rows that fit the memory budget at the wave's greatest width."""
        settings = self._settings
        lengths = [len(request.prompt) for request in wave]
        longest = max(min(len(r.prompt) + r.sampling.max_tokens, self._context) for r in wave)
        distinct = sum({r.prompt: len(r.prompt) for r in wave}.values())
        held = min(distinct, max(settings.prefill_tokens, *lengths))
        return self._layout.rows(rounded(longest), held, settings.slots, settings.cache_bytes)
