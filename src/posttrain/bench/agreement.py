"""Loss and gradient of our learner beside TRL's, in float32 on one injected batch.

Both get the same tokens, old log-probabilities (off-policy, so that clipping acts), advantages and adapter.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from posttrain import config
from posttrain.algorithms import ALGORITHMS
from posttrain.algorithms.advantages import over_tokens
from posttrain.batch import Batch
from posttrain.bench.child import Child, Program
from posttrain.bench.overlay import Overlay, peer_script
from posttrain.engines.torch import TorchEngine
from posttrain.models.adapter import save_adapter
from posttrain.models.language_model import LanguageModel
from posttrain.models.load import Model, load
from posttrain.models.lora import Lora, load_owned, owned
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.protocols import Algorithm, Completion, Request, SampleKey, Sampling
from posttrain.types import JSON, Group, Message, Reward, Task, Trajectory, Turn

LORA = Lora(rank=4, alpha=8.0)
PROMPTS = (7, 12, 5, 9)
ANSWERS = ((3, 8), (6, 1), (16, 16), (5, 11))
"""Tokens of each prompt and of its two attempts: no two shapes alike, one attempt of a single token."""
MAX_TOKENS = 16
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
STALENESS = 0.3
"""Standard deviation of old minus current log-probabilities: about a third of the ratios are clipped."""
MICRO_BATCH = 4

CLIP = {"clip_low": CLIP_LOW, "clip_high": CLIP_HIGH}
TRL_CLIP = {"epsilon": CLIP_LOW, "epsilon_high": CLIP_HIGH}


@dataclass(frozen=True, slots=True)
class Same:
    """One loss as both sides name it: our algorithm's table, and the keywords of TRL's GRPOConfig."""

    ours: Mapping[str, JSON]
    trl: Mapping[str, JSON]


SAME: Mapping[str, Same] = {
    "grpo": Same({"use": "grpo", **CLIP}, {"loss_type": "grpo", **TRL_CLIP}),
    "dr_grpo": Same(
        {"use": "dr_grpo", "max_tokens": MAX_TOKENS, **CLIP}, {"loss_type": "dr_grpo", **TRL_CLIP}
    ),
    "dapo": Same({"use": "dapo", **CLIP}, {"loss_type": "dapo", **TRL_CLIP}),
    "gspo": Same(
        {"use": "gspo", "clip_low": 0.05, "clip_high": 0.08},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.05, "epsilon_high": 0.08},
    ),
    "cispo": Same({"use": "cispo", "clip_high": 0.28}, {"loss_type": "cispo", "epsilon_high": 1.28}),
}
"""By our name; TRL bounds CISPO's ratio itself, ours its distance from 1."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two losses, and the farthest two entries of two gradients, are apart, as shares of the peer's.

    A gradient's share is of its largest entry.
    """

    loss: str
    ours: float
    peer: float
    gradient_gap: float
    num_parameters: int

    @property
    def loss_gap(self) -> float:
        return abs(self.ours - self.peer) / abs(self.peer)

    def text(self) -> str:
        """Return the comparison in one line."""
        return (
            f"{self.loss}: loss {self.ours:.8f} ours, {self.peer:.8f} TRL, apart {self.loss_gap:.1e}; "
            f"gradient of {self.num_parameters:,} parameters apart {self.gradient_gap:.1e} of its largest"
        )


@dataclass(frozen=True, slots=True)
class _Ready:
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class _Loss:
    loss: float
    peak_bytes: int


def agree(model: str, trl: Overlay, losses: Sequence[str] = tuple(SAME), threads: int = 1) -> list[Agreement]:
    """Return one comparison for each of `losses`, on the model in the folder `model`."""
    with tempfile.TemporaryDirectory() as folder:
        return [_compared(model, trl, loss, Path(folder), threads) for loss in losses]


def _compared(model: str, trl: Overlay, loss: str, folder: Path, threads: int) -> Agreement:
    own = load(Model(source=model, dtype="float32", device="cpu", lora=LORA), seed=0)
    _perturb(own)
    policy = Policy(own, Learner(), AdamW(clip_norm=0.0), total_steps=1)
    batch = injected(policy)
    save_adapter(own.module, LORA, folder / "adapter", model)
    (folder / "rows.json").write_text(json.dumps(_rows(batch)))
    ours, gradient = loss_and_gradient(policy, batch, _algorithm(loss))
    program = _program(model, trl, loss, folder, threads)
    with Child(program, _Ready, _Loss) as child:
        theirs = child.step().loss
    others = load_file(folder / "gradients.safetensors")
    assert gradient.keys() == others.keys(), "both sides train the same parameters"
    largest = max(float(other.abs().max()) for other in others.values())
    gap = max(float((gradient[name] - other).abs().max()) for name, other in others.items())
    count = sum(part.numel() for part in gradient.values())
    return Agreement(loss, ours, theirs, gap / largest, count)


def injected(policy: Policy) -> Batch:
    """Return sampled attempts with random advantages, and old log-probabilities near the current.

    Sampled, for a random token's log-probability is so low that rounding would be most of the difference.
    """
    generator = torch.Generator().manual_seed(0)
    batch = Batch.of(_sampled(policy.model, generator))
    drift = STALENESS * torch.randn(batch.tokens.shape, generator=generator)
    old = torch.where(batch.mask, policy.logprobs(batch) + drift, 0.0)
    advantages = over_tokens(torch.randn(batch.num_rows, generator=generator), batch.mask)
    return replace(batch, sampler_logprobs=old, anchor_logprobs=old, advantages=advantages)


def loss_and_gradient(policy: Policy, batch: Batch, algorithm: Algorithm) -> tuple[float, dict[str, Tensor]]:
    """Return the loss of one update and the gradient it took, before clipping; it steps the policy."""
    gradient: dict[str, Tensor] = {}

    def keep(name: str, parameter: nn.Parameter) -> None:
        assert parameter.grad is not None
        gradient[name] = parameter.grad.clone()

    hooks = [
        parameter.register_post_accumulate_grad_hook(partial(keep, name))  # type: ignore[no-untyped-call]
        for name, parameter in owned(policy.model.module)
    ]
    stats = policy.update(batch, algorithm)
    for hook in hooks:
        hook.remove()
    return stats.loss, gradient


def _algorithm(loss: str) -> Algorithm:
    algorithms: type[Algorithm] = Algorithm
    return config.construct(SAME[loss].ours, ALGORITHMS, source="bench", key=loss, expected=algorithms)


def _program(model: str, trl: Overlay, loss: str, folder: Path, threads: int) -> Program:
    settings: dict[str, JSON] = {
        "model": model,
        "adapter": str(folder / "adapter"),
        "rows": str(folder / "rows.json"),
        "gradients": str(folder / "gradients.safetensors"),
        "loss": dict(SAME[loss].trl),
        "max_tokens": MAX_TOKENS,
        "micro_batch": MICRO_BATCH,
        "num_rows": sum(map(len, ANSWERS)),
        "threads": threads,
    }
    return Program(f"TRL ({loss})", str(peer_script("trl_gradient.py")), settings, threads, (trl.folder,))


def _perturb(model: LanguageModel) -> None:
    """Move the adapter away from its start, where B = 0 would hide faults in A's gradient."""
    generator = torch.Generator().manual_seed(1)
    moved = {
        name: parameter.detach() + 0.02 * torch.randn(parameter.shape, generator=generator)
        for name, parameter in owned(model.module)
    }
    load_owned(model.module, moved)


def _sampled(model: LanguageModel, generator: torch.Generator) -> list[Group]:
    vocabulary = model.module.config.vocab_size
    prompts = [tuple(torch.randint(vocabulary, (n,), generator=generator).tolist()) for n in PROMPTS]
    wave = [
        Request(prompt, SampleKey(0, "probe", group, attempt), Sampling(max_tokens=count))
        for group, (prompt, counts) in enumerate(zip(prompts, ANSWERS, strict=True))
        for attempt, count in enumerate(counts)
    ]
    engine = TorchEngine(model, ignore_stop=True)
    completions = iter(asyncio.run(engine.generate(wave)))
    engine.close()
    return [
        _group(i, prompt, [next(completions) for _ in counts])
        for i, (prompt, counts) in enumerate(zip(prompts, ANSWERS, strict=True))
    ]


def _group(sequence: int, prompt: tuple[int, ...], completions: Sequence[Completion]) -> Group:
    question, answer = Message("user", ""), Message("assistant", "")
    task = Task(str(sequence), "injected", 0, (question,), {})
    attempts = tuple(
        Trajectory(task, (Turn(question, prompt), Turn(answer, c.tokens, c.logprobs, c.version)), "length")
        for c in completions
    )
    return Group(sequence, task, attempts, tuple(Reward(float(i)) for i in range(len(attempts))))


def _rows(batch: Batch) -> list[dict[str, object]]:
    assert batch.anchor_logprobs is not None
    rows: list[dict[str, object]] = []
    for row in range(batch.num_rows):
        prompt, length = int(batch.prompt_lengths[row]), int(batch.lengths[row])
        rows.append(
            {
                "prompt": batch.tokens[row, :prompt].tolist(),
                "completion": batch.tokens[row, prompt:length].tolist(),
                "old": batch.anchor_logprobs[row, prompt:length].tolist(),
                "advantage": float(batch.advantages[row, prompt]),
            }
        )
    return rows
