"""Sample one wave: prefill distinct prompts, seat attempts in rows, decode until all have ended.

Everything here is decided by the wave's prompts, settings and sampled tokens, never by a clock, so a
wave is a pure function of its requests and the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posttrain.engines.cache import Cache, Layout, Prefill, Prompts
from posttrain.engines.sampling import sample
from posttrain.engines.slots import Attempt, Slots
from posttrain.models.forward import head_weight, hidden_states
from posttrain.protocols import Sampling

IDLE = Sampling()


class Wave:
    """The tensors' side of one wave; `slots` decides, this computes."""

    def __init__(self, module: PreTrainedModel, layout: Layout, slots: Slots, prefill_tokens: int) -> None:
        self._module, self._device = module, layout.device
        self._slots, self._prefill_tokens = slots, prefill_tokens
        self._cache = Cache(layout, len(slots.rows))
        self._prompts = Prompts()

    def run(self, cancelled: Callable[[], bool]) -> None:
        """Decode until every attempt has ended or `cancelled()` says to give up."""
        self._refill()
        while self._slots.active and not cancelled():
            self._decode()
            self._refill()
            kept = self._slots.shrink()
            if kept is not None:
                self._cache.keep(kept)

    def _refill(self) -> None:
        while self._slots.can_start:
            started = self._slots.start(self._prompts.place)
            if not started:
                self._prompts = Prompts()  # every attempt at the last ones has begun: free them first
                self._prompts = self._prefill()
                continue
            self._seat(started)

    def _prefill(self) -> Prompts:
        """Compute the next distinct prompts in one flat pass; the head sees only their last tokens."""
        prompts = self._slots.next_prompts(self._prefill_tokens)
        ends = torch.tensor([len(prompt) for prompt in prompts]).cumsum(0)
        bounds = list(zip([0, *ends.tolist()], ends.tolist(), strict=False))
        attend = Prefill(bounds)
        tokens = [token for prompt in prompts for token in prompt]
        positions = [position for prompt in prompts for position in range(len(prompt))]
        hidden = self._forward(tokens, positions, attend)
        logits = self._logits(hidden[(ends - 1).to(self._device)])
        return Prompts({prompt: i for i, prompt in enumerate(prompts)}, attend, logits)

    def _seat(self, rows: list[int]) -> None:
        """Give freshly started rows their prompts' keys and values, and sample their first tokens."""
        places: dict[int, list[int]] = {}
        for row in rows:
            places.setdefault(self._prompts.place[self._attempt(row).request.prompt], []).append(row)
        # Room for the first decoded token too, so that the cache is not grown twice.
        self._cache.grow(max(self._attempt(row).length for row in rows) + 1)
        for place, same in places.items():
            self._cache.fill(same, self._prompts.prefill, place)
        order = [row for same in places.values() for row in same]
        index = torch.tensor([p for p, same in places.items() for _ in same], device=self._device)
        self._choose(order, self._prompts.logits[index])

    def _decode(self) -> None:
        """Sample one token in every row; an idle row decodes token 0 at position 0, and is ignored."""
        rows = self._slots.rows
        tokens = [0 if attempt is None else attempt.tokens[-1] for attempt in rows]
        positions = [0 if attempt is None else attempt.length - 1 for attempt in rows]
        hidden = self._forward(tokens, positions, self._cache.step(positions))
        self._choose(list(range(len(rows))), self._logits(hidden))

    def _forward(self, tokens: Sequence[int], positions: Sequence[int], attend: object) -> Tensor:
        flat = torch.tensor([tokens, positions], device=self._device)
        return hidden_states(self._module, flat[0], flat[1], attend)  # type: ignore[arg-type]

    def _logits(self, hidden: Tensor) -> Tensor:
        head = head_weight(self._module)
        logits: Tensor = head(hidden)
        return logits

    def _attempt(self, row: int) -> Attempt:
        attempt = self._slots.rows[row]
        assert attempt is not None
        return attempt

    def _choose(self, rows: list[int], logits: Tensor) -> None:
        """Sample from `logits` [len(rows), vocabulary] and append to the attempts that run in `rows`."""
        attempts = [self._slots.rows[row] for row in rows]
        settings = [IDLE if attempt is None else attempt.request.sampling for attempt in attempts]
        uniform = [0.0 if a is None else float(a.uniforms[len(a.tokens)]) for a in attempts]
        numbers = torch.tensor([uniform, [s.temperature for s in settings]], device=self._device)
        top_k, top_p = self._support(settings)
        tokens, logprobs = sample(logits, numbers[0], numbers[1], top_k, top_p)
        for row, attempt, token, logprob in zip(
            rows, attempts, tokens.tolist(), logprobs.tolist(), strict=True
        ):
            if attempt is not None:
                self._slots.append(row, token, logprob)

    def _support(self, settings: Sequence[Sampling]) -> tuple[Tensor | None, Tensor | None]:
        if all(s.top_k == 0 and s.top_p == 1.0 for s in settings):
            return None, None
        top_k = torch.tensor([s.top_k for s in settings], device=self._device)
        top_p = torch.tensor([s.top_p for s in settings], device=self._device)
        return top_k, top_p
