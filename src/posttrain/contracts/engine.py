"""The contract of an engine, as checks to run on ours and on a user's own.

Each check raises AssertionError with what was seen; `check_engine` runs them all and gives the findings.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from posttrain.contracts.finding import Finding
from posttrain.protocols import Completion, Engine, Request, SampleKey, Sampling, Weights

MAX_TOKENS = 6


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine under test, prompts it can continue, its stop tokens, and weights it can load."""

    engine: Engine
    prompts: Sequence[tuple[int, ...]]
    stop_tokens: frozenset[int]
    weights: Weights

    def wave(self, attempts: int = 2, max_tokens: int = MAX_TOKENS) -> list[Request]:
        """Return `attempts` requests for each prompt, each with a key of its own."""
        sampling = Sampling(max_tokens=max_tokens)
        return [
            Request(prompt, SampleKey(7, "train", group, attempt), sampling)
            for group, prompt in enumerate(self.prompts)
            for attempt in range(attempts)
        ]


async def _sampled(subject: Subject, wave: Sequence[Request]) -> list[Completion]:
    completions = await subject.engine.generate(wave)
    assert len(completions) == len(wave), f"{len(completions)} completions for {len(wave)} requests"
    return completions


def _check_shape(request: Request, completion: Completion, stop_tokens: frozenset[int]) -> None:
    tokens, limit = completion.tokens, request.sampling.max_tokens
    assert 1 <= len(tokens) <= limit, f"{len(tokens)} tokens, expected 1 to {limit}"
    assert len(completion.logprobs) == len(tokens), "one log-probability for each token"
    assert all(value <= 1e-6 for value in completion.logprobs), f"a log-probability above 0: {completion}"
    assert not stop_tokens & set(tokens[:-1]), f"sampled on after a stop token: {tokens}"
    stopped = tokens[-1] in stop_tokens
    assert stopped == (completion.stop == "stop"), f"stop is {completion.stop!r} after token {tokens[-1]}"
    if completion.stop == "length":
        assert len(tokens) == limit, f"stopped for length at {len(tokens)} of {limit} tokens"


async def results_are_aligned_and_well_formed(subject: Subject) -> None:
    """One completion for each request, within its limit, the stop token last, log-probabilities ≤ 0."""
    wave = subject.wave()
    completions = await _sampled(subject, wave)
    for request, completion in zip(wave, completions, strict=True):
        _check_shape(request, completion, subject.stop_tokens)


async def limits_hold_for_each_request(subject: Subject) -> None:
    """Requests of one wave keep their own token limits."""
    wave = [
        replace(request, sampling=replace(request.sampling, max_tokens=1 + i % MAX_TOKENS))
        for i, request in enumerate(subject.wave(MAX_TOKENS))
    ]
    for request, completion in zip(wave, await _sampled(subject, wave), strict=True):
        _check_shape(request, completion, subject.stop_tokens)


async def a_wave_is_a_function_of_its_requests(subject: Subject) -> None:
    """The same wave twice gives the same tokens and the same log-probabilities, bit for bit."""
    wave = subject.wave()
    first, second = await _sampled(subject, wave), await _sampled(subject, wave)
    assert first == second, "two samplings of one wave differ"


async def equal_requests_get_equal_answers(subject: Subject) -> None:
    """The same request twice in one wave gives the same tokens: randomness comes from the key alone."""
    request = subject.wave(1)[0]
    first, second = await _sampled(subject, [request, request])
    assert first.tokens == second.tokens, f"{first.tokens} and {second.tokens} from one key"


async def an_empty_wave_gives_nothing(subject: Subject) -> None:
    """No requests, no completions."""
    completions = await subject.engine.generate([])
    assert completions == [], f"{completions} for no requests"


async def completions_carry_the_loaded_version(subject: Subject) -> None:
    """`load` changes the version, and completions are stamped with it."""
    version = subject.engine.version + 3
    before = await subject.engine.generate(subject.wave(1))
    assert {c.version for c in before} == {version - 3}, "the version that sampled is not stamped"
    await subject.engine.load(subject.weights, version)
    assert subject.engine.version == version, f"version is {subject.engine.version} after loading {version}"
    after = await subject.engine.generate(subject.wave(1))
    assert {c.version for c in after} == {version}, "the loaded version is not stamped"


Check = Callable[[Subject], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    results_are_aligned_and_well_formed,
    limits_hold_for_each_request,
    a_wave_is_a_function_of_its_requests,
    equal_requests_get_equal_answers,
    an_empty_wave_gives_nothing,
    completions_carry_the_loaded_version,
)
"""All checks, in an order in which each can run after the others."""


async def check_engine(subject: Subject) -> list[Finding]:
    """Run every check and return every broken rule; the engine ends with other weights and version."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            await check(subject)
        except AssertionError as error:
            findings.append(Finding(check.__name__.replace("_", " "), str(error)))
    return findings
