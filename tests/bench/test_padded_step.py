"""The padded peer takes the same gradient as our learner, so the two do the same work."""

import runpy

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from posttrain.algorithms.advantages import over_tokens
from posttrain.algorithms.grpo import GRPO
from posttrain.batch import Batch
from posttrain.bench.agreement import LORA, _perturb, loss_and_gradient
from posttrain.bench.overlay import peer_script
from posttrain.models.adapter import save_adapter
from posttrain.models.load import Model, load
from posttrain.models.source import resolve
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn


class Kept:
    """An optimizer that keeps the gradients it is given."""

    def __init__(self, named):
        self.named, self.gradients = named, {}

    def step(self):
        self.gradients = {name: parameter.grad.clone() for name, parameter in self.named}

    def zero_grad(self):
        for _, parameter in self.named:
            parameter.grad = None


def batch_of(tokens, prompt, advantages):
    message = Message("user", "")
    task = Task("0", "d", 0, (message,), {})
    rows = [
        Trajectory(
            task,
            (Turn(message, tuple(row[:prompt])), Turn(message, tuple(row[prompt:]), (0.0,) * 4, version=0)),
            "stop",
        )
        for row in tokens.tolist()
    ]
    # Each row is a group of its own, for their prompts differ.
    batch = Batch.of([Group(i, task, (row,), (Reward(0.0),)) for i, row in enumerate(rows)])
    return Batch(**{**{n: getattr(batch, n) for n in batch.__slots__},
                    "advantages": over_tokens(advantages, batch.mask)})  # fmt: skip


@pytest.mark.parametrize("token_budget", [9, 18, 100])
def test_the_padded_peer_takes_our_gradient(tmp_path, token_budget):
    own = load(Model(source="tiny", dtype="float32", device="cpu", lora=LORA), seed=0)
    _perturb(own)
    save_adapter(own.module, LORA, tmp_path, "tiny")
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(own.module.config.vocab_size, (4, 9), generator=generator)
    advantages = torch.randn(4, generator=generator)

    base = AutoModelForCausalLM.from_pretrained(resolve("tiny"), dtype=torch.float32)
    peer = PeftModel.from_pretrained(base, str(tmp_path), is_trainable=True)
    named = [(n, p) for n, p in peer.named_parameters() if p.requires_grad]
    kept = Kept(named)
    settings = {"shape": {"prompt": 5, "completion": 4}, "token_budget": token_budget}
    update = runpy.run_path(str(peer_script("padded_step.py")))["update"]
    update(peer, kept, [p for _, p in named], tokens, advantages, settings)

    policy = Policy(own, Learner(), AdamW(clip_norm=0.0), total_steps=1)
    _, gradient = loss_and_gradient(policy, batch_of(tokens, 5, advantages), GRPO(correction_cap=0.0))
    norm = torch.cat([part.flatten() for part in gradient.values()]).norm()
    scale = min(1.0, 1.0 / float(norm))  # the peer has clipped by norm already
    assert len(kept.gradients) == len(gradient)
    for name, part in kept.gradients.items():
        ours = gradient[name.removeprefix("base_model.model.").removesuffix(".default.weight")]
        assert torch.allclose(part, ours * scale, atol=1e-6 * float(norm) + 1e-7), name
