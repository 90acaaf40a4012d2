import asyncio
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.contracts.engine import CHECKS, Subject, check_engine
from posttrain.engines.scripted import Scripted
from posttrain.engines.torch import Torch, TorchEngine
from posttrain.models.forward import ATTENTION
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora, owned

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
    weights = {name: parameter.detach() + 0.1 for name, parameter in owned(module)}
    return Subject(TorchEngine(model, Torch(slots=4)), PROMPTS, STOP, weights)


def scripted_subject():
    def answer(request):
        return [12 + (request.key.attempt + i) % 5 for i in range(4)] + [2]

    return Subject(Scripted(answer, STOP), PROMPTS, STOP, {})


@pytest.mark.parametrize("make", [torch_subject, scripted_subject])
@pytest.mark.parametrize("check", CHECKS)
def test_engines_keep_the_contract(make, check):
    asyncio.run(check(make()))


def test_a_sound_engine_has_no_findings():
    assert asyncio.run(check_engine(scripted_subject())) == []


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
