"""A fake engine that answers by a function: for tests of everything above the engine."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from posttrain.engines.telling import Told
from posttrain.protocols import Completion, Request, Weights


class Scripted:
    """Answer each request with the tokens that `answer` gives, cut to its token limit.

    `stop_tokens` end an answer early; every token has the probability `probability`.
    """

    def __init__(
        self,
        answer: Callable[[Request], Sequence[int]],
        stop_tokens: frozenset[int] = frozenset(),
        *,
        probability: float = 0.5,
        version: int = 0,
    ) -> None:
        self._answer, self._stop_tokens = answer, stop_tokens
        self._logprob, self._version = math.log(probability), version
        self.waves: list[tuple[Request, ...]] = []
        self.loads: list[int] = []

    @property
    def version(self) -> int:
        """Return the version that was loaded last."""
        return self._version

    async def generate(self, wave: Sequence[Request]) -> list[Completion]:
        """Return the scripted completions; the wave is remembered in `waves`."""
        self.waves.append(tuple(wave))
        return [self._complete(request) for request in wave]

    async def generate_telling(self, wave: Sequence[Request], told: Told) -> list[Completion]:
        """Tell of the completions one by one, the last request's first, and return them in order."""
        completions = await self.generate(wave)
        for index in reversed(range(len(completions))):
            told(index, completions[index])
            await asyncio.sleep(0)
        return completions

    async def load(self, weights: Weights, version: int) -> None:
        """Remember the version in `loads`; the weights are not looked at."""
        self.loads.append(version)
        self._version = version

    def _complete(self, request: Request) -> Completion:
        tokens: list[int] = []
        for token in tuple(self._answer(request))[: request.sampling.max_tokens]:
            tokens.append(token)
            if token in self._stop_tokens:
                break
        stopped = bool(tokens) and tokens[-1] in self._stop_tokens
        logprobs = (self._logprob,) * len(tokens)
        return Completion(tuple(tokens), logprobs, "stop" if stopped else "length", self._version)
