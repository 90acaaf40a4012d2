import asyncio
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.contracts.engine import CHECKS, NotChecked, Oracle, Subject, check_engine
from posttrain.contracts.plain import token_logprobs
from posttrain.engines.scripted import Scripted
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.models.forward import ATTENTION
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora, load_owned, owned, twin

PROMPTS = ((4, 5, 6), (7, 8), (4, 5, 6, 7))
STOP = frozenset(range(2, 12))


def torch_subject():
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, attn_implementation=ATTENTION,
        initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LlamaForCausalLM(config)
    add_lora(module, Lora(rank=2), seed=0)
    model = LanguageModel(
        module, PreTrainedTokenizerBase(), torch.device("cpu"), torch.float32, 32, STOP, "tiny"
    )
    first = {name: parameter.detach() + 0.1 for name, parameter in owned(module)}
    weights = {name: parameter.detach() - 0.2 for name, parameter in owned(module)}
    independent = twin(module)

    def score(loaded, request, completion):
        load_owned(independent, loaded)
        return token_logprobs(independent, request.prompt, completion.tokens, 1.0).tolist()

    oracle = Oracle(first, score, tolerance=1e-5)
    return Subject(TorchEngine(model, Torch(slots=4)), PROMPTS, STOP, weights, oracle)


def scripted_subject():
    def answer(request):
        return [12 + (request.key.attempt + i) % 5 for i in range(4)] + [2]

    return Subject(Scripted(answer, STOP), PROMPTS, STOP, {})


@pytest.mark.parametrize("make", [torch_subject, scripted_subject])
@pytest.mark.parametrize("check", CHECKS)
def test_engines_keep_the_contract(make, check):
    try:
        asyncio.run(check(make()))
    except NotChecked:
        assert make is scripted_subject  # no model knows what a script should have said


@pytest.mark.parametrize("make", [torch_subject, scripted_subject])
def test_a_sound_engine_has_no_findings(make):
    assert asyncio.run(check_engine(make())) == []


class Stale:
    """An engine that goes on with what it computed for a prompt before the last load."""

    def __init__(self, engine):
        self._engine, self._known = engine, {}

    @property
    def version(self):
        return self._engine.version

    async def load(self, weights, version):
        await self._engine.load(weights, version)

    async def generate(self, wave):
        fresh = await self._engine.generate(wave)
        pairs = zip(wave, fresh, strict=True)
        return [replace(self._known.setdefault(r, c), version=c.version) for r, c in pairs]


class Torn:
    """An engine that takes new weights in the middle of a wave."""

    def __init__(self, engine):
        self._engine = engine

    @property
    def version(self):
        return self._engine.version

    async def load(self, weights, version):
        await self._engine.load(weights, version)

    async def generate(self, wave):
        half = len(wave) // 2
        return await self._engine.generate(wave[:half]) + await self._engine.generate(wave[half:])


@pytest.mark.parametrize(
    ("wrap", "rule"),
    [
        (Stale, "log probabilities follow the loaded weights"),
        (Torn, "a wave is sampled with one version"),
    ],
)
def test_a_stale_or_torn_engine_is_found_by_its_numbers(wrap, rule):
    subject = torch_subject()
    findings = asyncio.run(check_engine(replace(subject, engine=wrap(subject.engine))))
    assert rule in [finding.rule for finding in findings]


def test_an_engine_that_raises_breaks_a_rule_instead_of_the_suite():
    subject = scripted_subject()
    broken = replace(subject, engine=Broken(subject.engine, "raises"))
    findings = asyncio.run(check_engine(broken))
    assert "raised ConnectionError: gone" in findings[0].detail


def test_where_stop_tokens_are_not_known_the_rest_is_checked():
    subject = replace(scripted_subject(), stop_tokens=None)
    assert asyncio.run(check_engine(subject)) == []


class Broken:
    """An engine with one fault, wrapped around a sound one."""

    def __init__(self, engine, fault):
        self._engine, self._fault, self._calls = engine, fault, 0

    @property
    def version(self):
        return self._engine.version

    async def load(self, weights, version):
        if self._fault != "ignores load":
            await self._engine.load(weights, version)

    async def generate(self, wave):
        self._calls += 1
        completions = await self._engine.generate(wave)
        match self._fault:
            case "raises":
                raise ConnectionError("gone")
            case "drops one":
                return completions[:-1]
            case "differs from call to call":
                return [replace(c, logprobs=(*c.logprobs[:-1], -float(self._calls))) for c in completions]
            case "positive logprobs":
                return [replace(c, logprobs=tuple(-x for x in c.logprobs)) for c in completions]
            case "old version":
                return [replace(c, version=0) for c in completions]
            case "cuts stop token":
                return [replace(c, tokens=c.tokens[:-1], logprobs=c.logprobs[:-1]) for c in completions]
        return completions


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("drops one", "results are aligned and well formed"),
        ("differs from call to call", "a wave is a function of its requests"),
        ("positive logprobs", "results are aligned and well formed"),
        ("old version", "completions carry the loaded version"),
        ("cuts stop token", "results are aligned and well formed"),
        ("ignores load", "completions carry the loaded version"),
    ],
)
def test_the_suite_finds_an_engine_with_a_fault(fault, rule):
    subject = scripted_subject()
    findings = asyncio.run(check_engine(replace(subject, engine=Broken(subject.engine, fault))))
    assert rule in [finding.rule for finding in findings]
    assert all(finding.detail for finding in findings)
