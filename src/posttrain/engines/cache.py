"""Keys and values of the rows being sampled, and the two `Attend` objects that fill and read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from posttrain.engines.slots import Prompt
from posttrain.errors import CapacityError
from posttrain.models.forward import causal_self_attention, grouped, ungrouped

WIDTH_STEP = 64
"""Widths are multiples of this, so that few shapes occur and one row's length seldom changes them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What one token costs: layers, key heads, and numbers in each head."""

    layers: int
    kv_heads: int
    head_width: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> Layout:
        """Read the layout from a model's configuration."""
        # Older kinds of configuration leave out what equals its default.
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        return cls(config.num_hidden_layers, kv_heads, width, dtype, device)

    @property
    def token_bytes(self) -> int:
        """Return the bytes that keys and values of one token take in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_width * self.dtype.itemsize

    def rows(self, width: int, held: int, most: int, budget: int) -> int:
        """Return how many rows of `width` tokens fit `budget` bytes beside `held` prompt tokens.

        Raises CapacityError if not even one does; never more than `most`.
        """
        fit = (budget // self.token_bytes - held) // width
        if fit < 1:
            needed = (width + held) * self.token_bytes
            raise CapacityError(
                f"one row of {width} tokens beside prompts of {held} tokens needs {needed:,} bytes of cache, "
                f"engine.cache_bytes allows {budget:,}. Raise engine.cache_bytes to at least {needed:,}, or "
                "lower sampling.max_tokens or engine.prefill_tokens."
            )
        return min(fit, most)


def rounded(width: int) -> int:
    """Return `width` rounded up to the next step of the cache's widths."""
    return -(-width // WIDTH_STEP) * WIDTH_STEP


@dataclass(slots=True)
class Prefill:
    """Attend causally inside each of several prompts laid end to end, and keep their keys and values.

    `bounds` are the prompts' [start, end) in the flat tokens; `keys[layer]` is [kv_heads, tokens, width].
    """

    bounds: Sequence[tuple[int, int]]
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        assert layer == len(self.keys), "layers come in order"
        self.keys.append(key)
        self.values.append(value)
        parts = [
            causal_self_attention(query[:, start:end], key[:, start:end], value[:, start:end], scale)
            for start, end in self.bounds
        ]
        return torch.cat(parts)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Computed prompts: where each lies in `prefill`, and the logits after its last token."""

    place: dict[Prompt, int] = field(default_factory=dict)
    prefill: Prefill = field(default_factory=lambda: Prefill(()))
    logits: Tensor = field(default_factory=lambda: torch.empty(0))


class Cache:
    """Keys and values [rows, kv_heads, width, head_width] of each layer; width grows in steps of 64."""

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self._keys = [self._empty(rows, 0) for _ in range(layout.layers)]
        self._values = [self._empty(rows, 0) for _ in range(layout.layers)]

    def _empty(self, rows: int, width: int) -> Tensor:
        # Zeros, as masked places still enter products: NaN left in memory times 0 is NaN.
        layout = self._layout
        shape = (rows, layout.kv_heads, width, layout.head_width)
        return torch.zeros(shape, dtype=layout.dtype, device=layout.device)

    @property
    def width(self) -> int:
        """Return how many tokens a row can hold now."""
        return self._keys[0].shape[2]

    def grow(self, width: int) -> None:
        """Make room for `width` tokens in every row; layer by layer, so little is held twice."""
        if rounded(width) <= self.width:
            return
        for store in (self._keys, self._values):
            for layer, old in enumerate(store):
                store[layer] = self._empty(old.shape[0], rounded(width))
                store[layer][:, :, : old.shape[2]] = old

    def keep(self, rows: list[int]) -> None:
        """Keep only the given rows, in their order."""
        index = torch.tensor(rows, device=self._layout.device)
        for store in (self._keys, self._values):
            for layer, old in enumerate(store):
                store[layer] = old[index]

    def fill(self, rows: list[int], prompts: Prefill, place: int) -> None:
        """Copy one computed prompt to the start of each of `rows`, which must be wide enough."""
        start, end = prompts.bounds[place]
        index = torch.tensor(rows, device=self._layout.device)
        for layer in range(self._layout.layers):
            self._keys[layer][index, :, : end - start] = prompts.keys[layer][:, start:end]
            self._values[layer][index, :, : end - start] = prompts.values[layer][:, start:end]

    def step(self, positions: Sequence[int]) -> Step:
        """Return the `Attend` for one new token in every row, at `positions`."""
        longest = max(positions) + 1
        self.grow(longest)
        place = torch.tensor(positions, device=self._layout.device)
        width = rounded(longest)
        hidden = torch.arange(width, device=self._layout.device) > place[:, None]
        mask = torch.zeros(hidden.shape, device=hidden.device).masked_fill(hidden, -torch.inf)
        return Step(self._keys, self._values, place, mask[:, None, None])


class Step:
    """Write one token's key and value into every row, then attend over each row up to that token."""

    def __init__(self, keys: list[Tensor], values: list[Tensor], positions: Tensor, mask: Tensor) -> None:
        self._keys, self._values = keys, values
        self._positions, self._mask = positions, mask
        self._rows = torch.arange(len(positions), device=positions.device)

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        keys, values, width = self._keys[layer], self._values[layer], self._mask.shape[-1]
        keys[self._rows, :, self._positions] = key.transpose(0, 1)
        values[self._rows, :, self._positions] = value.transpose(0, 1)
        folded = grouped(query.transpose(0, 1)[:, :, None], keys.shape[1])
        # Two products beat the fused kernel threefold here: it is slow for the 1 to 8 queries of a row.
        scores = torch.matmul(folded, keys[:, :, :width].transpose(2, 3)).float()
        weights = torch.softmax(scores.mul_(scale).add_(self._mask), -1).to(values.dtype)
        mixed = torch.matmul(weights, values[:, :, :width])
        return ungrouped(mixed, query.shape[0])[:, :, 0]
