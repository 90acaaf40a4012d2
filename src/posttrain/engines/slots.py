"""Who sits in which row: the bookkeeping of one wave, decided by tokens alone and free of tensors."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from posttrain.engines.sampling import uniforms
from posttrain.engines.telling import Told
from posttrain.errors import CapacityError, ConfigError
from posttrain.protocols import Completion, Request

SMALLEST = 8
"""Fewest rows decoded at once: below it a step costs the same, as reading the weights bounds it."""

Prompt = tuple[int, ...]


@dataclass(slots=True)
class Attempt:
    """A request being sampled: `index` is its place in the wave."""

    index: int
    request: Request
    uniforms: NDArray[np.float32]
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Count prompt and sampled tokens."""
        return len(self.request.prompt) + len(self.tokens)


def check(wave: Sequence[Request], context: int) -> None:
    """Raise CapacityError or ConfigError for the first request that cannot be sampled."""
    for request in wave:
        length, sampling = len(request.prompt), request.sampling
        if length >= context:
            raise CapacityError(
                f"a prompt of {length} tokens leaves no room in the model's context of {context} tokens. "
                "Shorten the prompt or choose a model with a longer context."
            )
        if length == 0:
            raise ConfigError("an empty prompt cannot be continued", hint="Give at least one token.")
        for key, value, valid, expected in (
            ("max_tokens", sampling.max_tokens, sampling.max_tokens >= 1, "at least 1"),
            ("temperature", sampling.temperature, sampling.temperature > 0, "above 0"),
            ("top_p", sampling.top_p, 0 < sampling.top_p <= 1, "in (0, 1]"),
            ("top_k", sampling.top_k, sampling.top_k >= 0, "0 (all) or more"),
        ):
            if not valid:
                raise ConfigError(f"{value} must be {expected}", key=f"sampling.{key}")


def ladder(most: int) -> list[int]:
    """Return the numbers of rows that may be decoded at once: 8, 16, 32 … below `most`, then `most`."""
    steps, rows = [], SMALLEST
    while rows < most:
        steps.append(rows)
        rows *= 2
    return [*steps, most]


def fitting(steps: Sequence[int], count: int) -> int:
    """Return the smallest step that holds `count` rows, or the largest step."""
    return next((rows for rows in steps if rows >= count), steps[-1])


class Slots:
    """Rows, the queue behind them and the results in front of them.

    Requests with equal prompts become neighbours in the queue, in order of first appearance; a free row
    takes the next one. The number of rows is the smallest step of the ladder that holds the wave and,
    once the queue is empty, the attempts still running.
    """

    def __init__(
        self, wave: Sequence[Request], most: int, context: int, stop_tokens: frozenset[int], version: int,
        told: Told | None = None,
    ) -> None:  # fmt: skip
        first = {request.prompt: i for i, request in reversed(list(enumerate(wave)))}
        order = sorted(range(len(wave)), key=lambda i: first[wave[i].prompt])
        self._queue = [(i, wave[i]) for i in reversed(order)]
        self._context, self._stop_tokens, self._version = context, stop_tokens, version
        self._steps, self._told = ladder(most), told
        self.rows: list[Attempt | None] = [None] * fitting(self._steps, len(wave))
        self.results: dict[int, Completion] = {}

    @property
    def active(self) -> list[int]:
        """Return the rows in which an attempt is running."""
        return [row for row, attempt in enumerate(self.rows) if attempt is not None]

    @property
    def can_start(self) -> bool:
        """Tell whether a request waits and a row is free."""
        return bool(self._queue) and None in self.rows

    def next_prompts(self, budget: int) -> list[Prompt]:
        """Return the next distinct prompts of the queue: the first, and more while `budget` tokens last."""
        prompts: dict[Prompt, None] = {}
        for _, request in reversed(self._queue):
            if request.prompt not in prompts:
                budget -= len(request.prompt)
                if prompts and budget < 0:
                    break
                prompts[request.prompt] = None
        return list(prompts)

    def start(self, ready: Container[Prompt]) -> list[int]:
        """Seat waiting requests in free rows while their prompts are `ready`; return those rows."""
        started: list[int] = []
        for row, attempt in enumerate(self.rows):
            if attempt is None and self._queue and self._queue[-1][1].prompt in ready:
                index, request = self._queue.pop()
                count = min(request.sampling.max_tokens, self._context - len(request.prompt))
                self.rows[row] = Attempt(index, request, uniforms(request.key, count))
                started.append(row)
        return started

    def append(self, row: int, token: int, logprob: float) -> None:
        """Add a sampled token to the attempt in `row`, and empty the row if that ends it."""
        attempt = self.rows[row]
        assert attempt is not None
        attempt.tokens.append(token)
        attempt.logprobs.append(logprob)
        stop = self._ending(attempt, token)
        if stop is not None:
            ended = Completion(tuple(attempt.tokens), tuple(attempt.logprobs), stop, self._version)
            self.results[attempt.index] = ended
            self.rows[row] = None
            if self._told is not None:
                self._told(attempt.index, ended)

    def _ending(self, attempt: Attempt, token: int) -> Literal["stop", "length", "context"] | None:
        if token in self._stop_tokens:
            return "stop"
        if len(attempt.tokens) >= attempt.request.sampling.max_tokens:
            return "length"
        return "context" if attempt.length >= self._context else None

    def shrink(self) -> list[int] | None:
        """Drop to a lower step of the ladder if nothing waits; return the old rows to keep, or None."""
        active = self.active
        size = fitting(self._steps, len(active))
        if self._queue or size >= len(self.rows):
            return None
        idle = [row for row, attempt in enumerate(self.rows) if attempt is None]
        kept = sorted(active + idle[: size - len(active)])
        self.rows = [self.rows[row] for row in kept]
        return kept
