"""A tiny Llama with grouped-query attention, and batches of random attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.batch import Batch
from posttrain.models.forward import ATTENTION
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, LoraLinear, add_lora
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

VOCABULARY = 50


def tiny(lora: bool = True, dtype: torch.dtype = torch.float32, tied: bool = False) -> LanguageModel:
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
        attn_implementation=ATTENTION, tie_word_embeddings=tied,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LlamaForCausalLM(config).to(dtype)
    if lora:
        add_lora(module, Lora(rank=2, alpha=4.0), seed=1)
        generator = torch.Generator().manual_seed(2)
        for layer in module.modules():
            if isinstance(layer, LoraLinear):  # a zero B would hide faults in A's gradient
                start = torch.randn(layer.lora_B.shape, generator=generator) * 0.05
                layer.lora_B.data.copy_(start)
                for parameter in (layer.lora_A, layer.lora_B):
                    parameter.data = parameter.data.to(
                        torch.float64 if dtype == torch.float64 else torch.float32
                    )
    return LanguageModel(
        module=module, tokenizer=PreTrainedTokenizerBase(), device=torch.device("cpu"), dtype=dtype,
        context=256, stop_tokens=frozenset({1}), source="tiny",
    )  # fmt: skip


def groups(shapes: list[tuple[int, list[int]]], seed: int = 0, temperature: float = 1.0) -> list[Group]:
    """Return a group for each (prompt length, answer lengths), rewards 1, 0, 0, 1, 0, 0 …"""
    generator = torch.Generator().manual_seed(seed)

    def random_tokens(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(2, VOCABULARY, (count,), generator=generator).tolist())

    made = []
    for sequence, (prompt, answers) in enumerate(shapes):
        task = Task(f"t{sequence}", "d", 0, (Message("user", "?"),), {})
        question = Turn(Message("user", "?"), random_tokens(prompt))
        attempts = tuple(
            Trajectory(
                task,
                (question, Turn(Message("assistant", "!"), random_tokens(n), (-3.0,) * n, version=0)),
                "stop",
                temperature,
            )
            for n in answers
        )
        rewards = tuple(Reward(float(i % 3 == 0)) for i in range(len(answers)))
        made.append(Group(sequence, task, attempts, rewards))
    return made


@pytest.fixture
def make_model() -> Callable[..., LanguageModel]:
    return tiny


@pytest.fixture
def make_groups() -> Callable[..., list[Group]]:
    return groups


@pytest.fixture
def batch() -> Batch:
    """Groups of unequal prompts, sizes and answers, one of a single row."""
    return Batch.of(groups([(5, [3, 1, 4]), (9, [2, 6]), (4, [5]), (6, [1, 2, 3, 4])]))
