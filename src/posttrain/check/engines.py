"""The engine contract on an engine of one's own, with a model that says what it should sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedModel

from posttrain import config as toml
from posttrain.chat.template import Chat
from posttrain.check import target as targets
from posttrain.check.report import Section
from posttrain.contracts.engine import Oracle, Subject, inspect_engine
from posttrain.contracts.learner import Bounds, shaken
from posttrain.contracts.plain import token_logprobs
from posttrain.errors import InputError
from posttrain.models.language_model import LanguageModel
from posttrain.models.load import Model, load
from posttrain.models.lora import Lora, load_owned, twin
from posttrain.protocols import Completion, Request, Weights
from posttrain.types import Message

QUESTIONS = ("How many legs has a spider?", "2 + 3 =", "Name a colour.", "2 + 3 =")
IDS = ((4, 5, 6), (7, 8), (4, 5, 6, 7))
"""Prompts for an engine whose model is not at hand."""
SHARES = {True: 0.3, False: 0.1}
"""How strongly weights are shaken, with LoRA and without: far enough for the two to be told apart."""


async def engine_section(name: str, thing: object, arguments: Mapping[str, Any]) -> Section:
    """Run the engine contract; an engine that takes a `LanguageModel` gets `tiny`, or what `model=` names."""
    key = targets.wants_model(thing)
    if key is None:
        engine = targets.made(name, arguments)
        return await _section(name, Subject(_engine(name, engine), IDS, _stop_tokens(engine), {}))
    model = load(_settings(arguments.get(key, "tiny")), seed=0)
    engine = targets.made(name, {**arguments, key: model})
    return await _section(name, subject(_engine(name, engine), model))


def subject(engine: Any, model: LanguageModel) -> Subject:
    """Return an engine over `model` with prompts, two sets of weights, and who knows their numbers."""
    chat = Chat(model.tokenizer, model.stop_tokens)
    prompts = [chat.prompt([Message("user", question)]) for question in QUESTIONS]
    module = twin(model.module)
    assert isinstance(module, PreTrainedModel)

    def score(weights: Weights, request: Request, completion: Completion) -> list[float]:
        load_owned(module, weights)
        temperature = request.sampling.temperature
        scores: list[float] = token_logprobs(module, request.prompt, completion.tokens, temperature).tolist()
        return scores

    share = SHARES[any(name.endswith("lora_B") for name in dict(module.named_parameters()))]
    first, second = (shaken(model, seed, share) for seed in (1, 2))
    oracle = Oracle(first, score, Bounds.of(model.dtype).logprob)
    return Subject(engine, prompts, model.stop_tokens, second, oracle)


async def _section(name: str, subject: Subject) -> Section:
    rules = await inspect_engine(subject)
    close = getattr(subject.engine, "close", None)
    if callable(close):
        close()
    return Section("engine", name, tuple(rules.outcomes))


def _settings(model: object) -> Model:
    if isinstance(model, str):
        return Model(source=model, dtype="float32", lora=Lora(rank=8))
    if not isinstance(model, dict):
        raise InputError(f"model={model!r} is neither a model's name nor a table. Try model=tiny.")
    return toml.build(Model, model, source=targets.SOURCE, key="model")


def _engine(name: str, engine: object) -> Any:
    if targets.kind_of(engine) != "engine":
        raise targets.unknown(name, engine)
    return engine


def _stop_tokens(engine: object) -> frozenset[int] | None:
    found = getattr(engine, "stop_tokens", None)
    return frozenset(found) if isinstance(found, set | frozenset | tuple | list) else None
