"""`posttrain check CONFIG`: the learner's numbers on the user's own model, settings and prompts."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posttrain import assembly
from posttrain.assembly import Parts
from posttrain.batch import Batch
from posttrain.check.export import available_bytes, export_holds_what_was_trained
from posttrain.check.report import Section
from posttrain.check.suites import algorithm_section, domain_section
from posttrain.contracts import learner as contract
from posttrain.contracts.learner import Subject, shaken
from posttrain.contracts.outcome import Outcome
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import load_owned, owned
from posttrain.protocols import Completion, Draw, Engine, Request, SampleKey, Sampling
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

NUM_TASKS = 4
NUM_PROMPTS = 2
NUM_TRIED = 4
"""How many tasks of each of the first domains are looked at for short prompts."""
MAX_PROMPT = 192
"""Tokens of a prompt that are used, so that memory does not depend on the domain."""
LIMITS = (3, 8, 14)
"""Token limits of the attempts at one prompt: unequal, so that padding and packing have work to do."""
REWARDS = (1.0, 0.0, 0.25)
OTHER_SHARE = 0.5
"""How far the weights that are loaded next are from those before, relative to the base's."""


async def config_sections(path: Path, overrides: Sequence[str], deadline_seconds: float) -> list[Section]:
    """Check the domains and the algorithm that the config names, then the learner's numbers on its model."""
    config = assembly.read(path, overrides)
    async with assembly.opened(config, str(path)) as parts:
        sections = [
            await domain_section(
                entry.domain, parts.sandbox, num_tasks=NUM_TASKS, levels=(entry.level,),
                deadline_seconds=deadline_seconds,
            )
            for entry in parts.entries
        ]  # fmt: skip
        name = str(config.algorithm.get("use", "grpo"))
        sections.append(algorithm_section(name, parts.algorithm))
        outcomes = await learner_outcomes(parts, parts.engine)
        return [*sections, Section("learner", _describe(parts), tuple(outcomes))]


async def learner_outcomes(parts: Parts, engine: Engine) -> list[Outcome]:
    """Run the learner's checks with `engine` as the sampler; the model ends with other weights."""
    module = parts.model.module
    adapters = [p for name, p in owned(module) if name.endswith("lora_B")]
    if adapters and not any(bool(p.detach().any()) for p in adapters):
        # A fresh adapter adds nothing and hides faults in half of its gradients.
        load_owned(module, shaken(parts.model, seed=1))
    wave = requests(parts)
    batch = await _sampled(parts, engine, wave)
    subject = Subject(parts.model, parts.config.learner, parts.config.optimizer, parts.algorithm, batch)
    exact = replace(subject, model=_exact(parts.model))
    outcomes = [
        contract.gradients_have_a_signal(exact),
        contract.shared_prompts_equal_full_rows(exact),
        contract.packed_rows_equal_rows_alone(exact),
        contract.accumulation_equals_one_batch(exact),
        contract.sampler_equals_trainer(subject),
    ]
    del exact
    with tempfile.TemporaryDirectory(prefix="posttrain-check-") as folder:
        outcomes.append(contract.resuming_changes_nothing(subject, Path(folder) / "checkpoints"))
        old = subject.policy().weights()
        load_owned(module, shaken(parts.model, seed=2, share=OTHER_SHARE))
        outcomes += contract.loads_reach_the_sampler(subject, old, await _sampled(parts, engine, wave))
        tokens = batch.tokens[0, : int(batch.lengths[0])]
        lora = parts.config.model.lora
        outcomes += export_holds_what_was_trained(parts.model, lora, tokens, Path(folder) / "export")
    return outcomes


def _exact(model: LanguageModel) -> LanguageModel:
    """Return the model to compare gradients on: in float32 where there is memory for such a copy."""
    needed = 8 * sum(parameter.numel() for parameter in model.module.parameters())
    free = available_bytes()
    fits = free is None or needed < free
    return contract.in_float32(model) if model.dtype in contract.HALF and fits else model


def requests(parts: Parts) -> list[Request]:
    """Return a small wave: the shortest prompts of the config's first domains, attempts of unequal length."""
    collector = parts.collector("probe", len(LIMITS), parts.config.run.seed)
    prompts = {
        collector.prompt(Draw(0, entry.domain, entry.domain.task("train", entry.level, index))).tokens
        for entry in parts.entries[:NUM_PROMPTS]
        for index in range(NUM_TRIED)
    }
    chosen = sorted(prompts, key=lambda prompt: (len(prompt), prompt))[:NUM_PROMPTS]
    temperature = parts.config.sampling.temperature
    return [
        Request(prompt[-MAX_PROMPT:], key, Sampling(temperature, limit))
        for group, prompt in enumerate(chosen)
        for attempt, limit in enumerate(LIMITS)
        for key in [SampleKey(parts.config.run.seed, "probe", group, attempt)]
    ]


async def _sampled(parts: Parts, engine: Engine, wave: Sequence[Request]) -> Batch:
    """Give the sampler the model's weights, sample, and return the attempts as a batch with set rewards."""
    weights = {name: parameter.detach().clone() for name, parameter in owned(parts.model.module)}
    await engine.load(weights, engine.version + 1)
    completions = await engine.generate(wave)
    task = parts.entries[0].domain.task("train", parts.entries[0].level, 0)
    attempts = [_attempt(task, *pair) for pair in zip(wave, completions, strict=True)]
    verdicts = tuple(map(Reward, REWARDS))
    starts = range(0, len(wave), len(LIMITS))
    return Batch.of([
        Group(i, task, tuple(attempts[i : i + len(LIMITS)]), verdicts) for i in starts
    ])  # fmt: skip


def _attempt(task: Task, request: Request, completion: Completion) -> Trajectory:
    asked = Turn(Message("user", ""), request.prompt)
    said = Turn(Message("assistant", ""), completion.tokens, completion.logprobs, completion.version)
    return Trajectory(task, (asked, said), completion.stop, request.sampling.temperature)


def _describe(parts: Parts) -> str:
    model, lora = parts.model, parts.config.model.lora
    trained = "all weights" if lora is None else f"LoRA rank {lora.rank}"
    return f"{model.source} ({str(model.dtype).removeprefix('torch.')}, {model.device}, {trained})"
