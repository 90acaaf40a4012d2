"""The contract of an engine, as checks to run on ours and on a user's own.

Each check raises AssertionError with what was seen, or NotChecked; `check_engine` runs them all and gives the
findings, `inspect_engine` every rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from posttrain.contracts.finding import Finding
from posttrain.contracts.outcome import Rules
from posttrain.engines.telling import Telling
from posttrain.protocols import Completion, Engine, Request, SampleKey, Sampling, Weights

MAX_TOKENS = 6
DEADLINE_SECONDS = 120.0
"""What one check may take; each samples a few short waves."""
MIN_CHANGE = 3.0
"""Two weights are told apart where their log-probabilities differ by so many times the tolerance."""

Score = Callable[[Weights, Request, Completion], Sequence[float]]
"""What an independent forward pass with these weights says of a completion's tokens."""


class NotChecked(Exception):
    """A rule cannot be checked on this engine; the text says why."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Who knows the true log-probabilities: `first` are other weights than the subject's.

    `tolerance` bounds the mean absolute difference over a wave's tokens.
    """

    first: Weights
    score: Score
    tolerance: float


@dataclass(frozen=True, slots=True)
class Subject:
    """An engine under test, prompts it can continue, its stop tokens, and weights it can load.

    `stop_tokens` are None where they are not known; without an `oracle`, log-probabilities are not compared.
    """

    engine: Engine
    prompts: Sequence[tuple[int, ...]]
    stop_tokens: frozenset[int] | None
    weights: Weights
    oracle: Oracle | None = None

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


def _check_shape(request: Request, completion: Completion, stop_tokens: frozenset[int] | None) -> None:
    tokens, limit = completion.tokens, request.sampling.max_tokens
    assert 1 <= len(tokens) <= limit, f"{len(tokens)} tokens, expected 1 to {limit}"
    assert len(completion.logprobs) == len(tokens), "one log-probability for each token"
    assert all(value <= 1e-6 for value in completion.logprobs), f"a log-probability above 0: {completion}"
    if completion.stop == "length":
        assert len(tokens) == limit, f"stopped for length at {len(tokens)} of {limit} tokens"
    if stop_tokens is None:
        return
    assert not stop_tokens & set(tokens[:-1]), f"sampled on after a stop token: {tokens}"
    stopped = tokens[-1] in stop_tokens
    assert stopped == (completion.stop == "stop"), f"stop is {completion.stop!r} after token {tokens[-1]}"


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


async def what_is_told_early_is_what_is_returned(subject: Subject) -> None:
    """An engine that tells of completions tells of each once, before it returns, and samples the same."""
    engine, wave = subject.engine, subject.wave()
    if not isinstance(engine, Telling):
        raise NotChecked("this engine tells nothing before its wave has ended")
    told: list[tuple[int, Completion]] = []
    completions = await engine.generate_telling(wave, lambda *one: told.append(one))
    seen = list(told)
    assert completions == await _sampled(subject, wave), "telling changes what is sampled"
    assert sorted(index for index, _ in seen) == list(range(len(wave))), "each is told once, none is left out"
    assert dict(seen) == dict(enumerate(completions)), "something was told that was not returned"


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


async def log_probabilities_follow_the_loaded_weights(subject: Subject) -> None:
    """After a load the same prompts are scored by the new weights: no cache of the old ones is left."""
    oracle, wave = _oracle(subject), subject.wave()
    await subject.engine.load(oracle.first, subject.engine.version + 1)
    old = await _sampled(subject, wave)
    _check_scores(oracle, oracle.first, wave, old, "the first weights")
    _check_scores(oracle, subject.weights, wave, old, "other weights", apart=True)
    await subject.engine.load(subject.weights, subject.engine.version + 1)
    new = await _sampled(subject, wave)
    _check_scores(oracle, subject.weights, wave, new, "the loaded weights")


async def a_wave_is_sampled_with_one_version(subject: Subject) -> None:
    """A load while a wave runs waits for it, or the wave for the load: no completion is half old."""
    oracle, wave, version = _oracle(subject), subject.wave(), subject.engine.version
    await subject.engine.load(oracle.first, version + 1)
    completions, _ = await asyncio.gather(
        _sampled(subject, wave), subject.engine.load(subject.weights, version + 2)
    )
    versions = {completion.version for completion in completions}
    assert len(versions) == 1, f"one wave carries the versions {sorted(versions)}"
    weights = oracle.first if versions == {version + 1} else subject.weights
    _check_scores(oracle, weights, wave, completions, f"version {versions.pop()}")


def _oracle(subject: Subject) -> Oracle:
    if subject.oracle is None:
        raise NotChecked("no model at hand says what the log-probabilities should be")
    return subject.oracle


def _check_scores(
    oracle: Oracle, weights: Weights, wave: Sequence[Request], completions: Sequence[Completion],
    whose: str, *, apart: bool = False,
) -> None:  # fmt: skip
    """Compare a wave's log-probabilities with the oracle's; with `apart` they must differ clearly."""
    differences = [
        abs(ours - theirs)
        for request, completion in zip(wave, completions, strict=True)
        for ours, theirs in zip(completion.logprobs, oracle.score(weights, request, completion), strict=True)
    ]
    mean = sum(differences) / len(differences)
    if apart:
        least = MIN_CHANGE * oracle.tolerance
        assert mean >= least, f"the weights are too alike to tell apart: {mean:.2g}, at least {least:.2g}"
    else:
        seen = f"log-probabilities are {mean:.2g} from those of {whose} (at most {oracle.tolerance:.2g})"
        assert mean <= oracle.tolerance, seen


Check = Callable[[Subject], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    results_are_aligned_and_well_formed,
    limits_hold_for_each_request,
    a_wave_is_a_function_of_its_requests,
    equal_requests_get_equal_answers,
    what_is_told_early_is_what_is_returned,
    an_empty_wave_gives_nothing,
    completions_carry_the_loaded_version,
    log_probabilities_follow_the_loaded_weights,
    a_wave_is_sampled_with_one_version,
)
"""All checks, in an order in which each can run after the others."""


async def check_engine(subject: Subject) -> list[Finding]:
    """Run every check and return every broken rule; the engine ends with other weights and version."""
    return (await inspect_engine(subject)).findings


async def inspect_engine(subject: Subject) -> Rules:
    """Run every check and return every rule with what was seen of it."""
    rules = Rules()
    for check in CHECKS:
        rule, seen = check.__name__.replace("_", " "), ""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await check(subject)
        except NotChecked as why:
            rules.skip(rule, str(why))
            continue
        except TimeoutError:
            seen = f"no end within {DEADLINE_SECONDS:g} s"
        except AssertionError as error:
            seen = str(error) or "it does not hold"
        except Exception as error:  # a user's engine may raise anything
            seen = f"raised {type(error).__name__}: {error}"
        rules.expect(rule, not seen, seen, "checks")
    return rules
