"""The learner's gradients do not depend on layout, packing or accumulation; it resumes bitwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from posttrain.algorithms.grpo import GRPO
from posttrain.algorithms.sft import SFT
from posttrain.batch import Batch
from posttrain.models.forward import OneSequence, hidden_states
from posttrain.models.lora import owned
from posttrain.policy import attention
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.protocols import Algorithm, Term

GRPO_KL = GRPO(kl=0.1)


def prepared(policy: Policy, batch: Batch, algorithm: Algorithm) -> Batch:
    batch = policy.annotate(batch, algorithm.needs)
    return replace(batch, advantages=algorithm.advantages(batch))


def gradients(model, batch, learner, algorithm=GRPO_KL, monkeypatch=None):
    """Return what an update would step on: gradients before clipping, by name."""
    policy = Policy(model, learner, AdamW(), 10)
    found = {}
    policy.optimizer.step = lambda norm: found.update({n: p.grad.clone() for n, p in owned(model.module)})
    policy.update(prepared(policy, batch, algorithm), algorithm)
    return found


def largest_difference(first, second):
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def independent_logprobs(model, batch):
    """Each row alone, full logits, log-softmax: the plainest forward pass there is."""
    expected = torch.zeros(batch.tokens.shape, dtype=model.dtype)
    for row in range(batch.num_rows):
        tokens = batch.tokens[row, : batch.lengths[row]]
        hidden = hidden_states(model.module, tokens, torch.arange(len(tokens)), OneSequence())
        logits = model.module.lm_head(hidden[:-1]) / batch.temperature[row]
        expected[row, 1 : len(tokens)] = logits.log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
    return torch.where(batch.mask, expected, 0.0)


@pytest.mark.parametrize("layout", ["shared", "full"])
@pytest.mark.parametrize("max_scores", [0, attention.MAX_SCORES])
def test_logprobs_equal_those_of_each_row_alone(make_model, batch, layout, max_scores, monkeypatch):
    monkeypatch.setattr(attention, "MAX_SCORES", max_scores)
    monkeypatch.setattr(attention, "MIN_QUERY_BLOCK", 2)
    model = make_model()
    batch = replace(batch, temperature=torch.linspace(0.5, 1.5, batch.num_rows))
    with torch.no_grad():
        expected = independent_logprobs(model, batch)
    found = Policy(model, Learner(layout=layout), AdamW(), 1).logprobs(batch)
    assert float((found - expected).abs().max()) < 1e-5


def test_packed_gradients_equal_those_of_each_row_padded_alone(make_model, batch):
    model = make_model(dtype=torch.float64)
    packed = gradients(model, batch, Learner(token_budget=10_000), SFT())
    for parameter in model.module.parameters():
        parameter.grad = None
    (-independent_logprobs(model, batch).sum() / batch.num_scored).backward()
    alone = {name: parameter.grad for name, parameter in owned(model.module)}
    assert largest_difference(packed, alone) < 1e-7  # the batch's temperatures and losses are float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("max_scores", [0, attention.MAX_SCORES])
def test_shared_prompts_give_the_gradients_of_full_rows(
    make_model, batch, dtype, lora, max_scores, monkeypatch
):
    monkeypatch.setattr(attention, "MAX_SCORES", max_scores)
    monkeypatch.setattr(attention, "MIN_QUERY_BLOCK", 2)
    shared = gradients(make_model(lora, dtype), batch, Learner(layout="shared"))
    full = gradients(make_model(lora, dtype), batch, Learner(layout="full"))
    assert max(float(g.abs().max()) for g in full.values()) > 1e-3
    assert largest_difference(shared, full) < (1e-5 if dtype == torch.float32 else 1e-7)


@pytest.mark.parametrize("budget", [1, 12, 25, 40])
def test_accumulated_gradients_equal_one_big_batch(make_model, batch, budget):
    whole = gradients(make_model(), batch, Learner(token_budget=10_000))
    accumulated = gradients(make_model(), batch, Learner(token_budget=budget))
    assert largest_difference(whole, accumulated) < 1e-5


def test_checkpointing_changes_no_gradient_and_recomputes_layers(make_model, batch):
    plain = gradients(make_model(), batch, Learner())
    model = make_model()
    calls = []
    model.module.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    recomputed = gradients(model, batch, Learner(checkpointing=True), SFT())
    assert len(calls) == 2
    assert not model.module.model.layers[0].mlp.training
    assert largest_difference(plain, gradients(make_model(), batch, Learner(checkpointing=True))) == 0.0
    assert recomputed.keys() == plain.keys()


def test_tied_trainable_heads_learn(make_model, batch):
    model = make_model(lora=False, tied=True)
    policy = Policy(model, Learner(), AdamW(learning_rate=1e-2), 20)
    ready = prepared(policy, batch, SFT())
    losses = [policy.update(ready, SFT()).loss for _ in range(10)]
    assert losses[-1] < losses[0] - 0.3


def test_training_resumed_from_a_state_is_bitwise_the_same(make_model, batch):
    settings = AdamW(learning_rate=1e-2, schedule="cosine", warmup_steps=2)

    def steps(policy, count):
        return [policy.update(prepared(policy, batch, GRPO_KL), GRPO_KL).loss for _ in range(count)]

    straight = Policy(make_model(), Learner(), settings, 6)
    losses = steps(straight, 6)
    first = Policy(make_model(), Learner(), settings, 6)
    assert steps(first, 3) == losses[:3]
    tensors, numbers = first.state_dict()
    second = Policy(make_model(), Learner(), settings, 6)
    second.load_state_dict(tensors, numbers)
    assert steps(second, 3) == losses[3:]
    expected = straight.weights()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in second.weights().items())


def test_bf16_weights_keep_what_float32_masters_gather(make_model, batch):
    model = make_model(lora=False, dtype=torch.bfloat16)
    policy = Policy(model, Learner(), AdamW(learning_rate=1e-5, clip_norm=0.0), 50)
    ready = prepared(policy, batch, SFT())
    for _ in range(3):
        policy.update(ready, SFT())
    tensors, _ = policy.state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    master, weight = tensors[f"optimizer.master.{name}"], tensors[f"weights.{name}"]
    assert master.dtype == torch.float32
    assert weight.dtype == torch.bfloat16
    assert torch.equal(master.bfloat16(), weight)
    assert not torch.equal(master, weight.float())


def test_the_reference_is_the_policy_of_step_0(make_model, batch):
    policy = Policy(make_model(), Learner(), AdamW(learning_rate=1e-2), 5)
    before = policy.logprobs(batch)
    for _ in range(3):
        policy.update(prepared(policy, batch, GRPO_KL), GRPO_KL)
    assert torch.equal(policy.annotate(batch, frozenset({"reference"})).reference_logprobs, before)
    assert not torch.equal(policy.logprobs(batch), before)


def test_a_late_reference_is_refused(make_model, batch):
    policy = Policy(make_model(), Learner(), AdamW(), 5)
    policy.update(prepared(policy, batch, SFT()), SFT())
    with pytest.raises(Exception, match="reference is the policy of step 0, but 1 steps"):
        policy.annotate(batch, frozenset({"reference"}))


def test_several_updates_step_against_one_anchor(make_model, batch):
    policy = Policy(make_model(), Learner(updates_per_batch=3), AdamW(learning_rate=0.05), 5)
    before = policy.logprobs(batch)
    ready = prepared(policy, batch, GRPO())
    assert torch.equal(ready.anchor_logprobs, before)
    stats = policy.update(ready, GRPO())
    assert stats.num_steps == 3
    assert stats.clip_share > 0
    assert stats.mismatch == pytest.approx(float((before + 3.0)[batch.mask].abs().max()), abs=1e-5)


def test_statistics_follow_their_definitions(make_model, batch):
    policy = Policy(make_model(), Learner(token_budget=15), AdamW(), 5)
    current = policy.logprobs(batch)[batch.mask]
    stats = policy.update(prepared(policy, batch, SFT()), SFT())
    assert stats.loss == pytest.approx(-float(current.mean()), abs=1e-5)
    assert stats.entropy == pytest.approx(-float(current.mean()), abs=1e-5)
    assert stats.sampler_kl == pytest.approx(float((-3.0 - current).mean()), abs=1e-5)
    assert stats.num_tokens == 31
    assert stats.num_rows == 10
    assert stats.num_micro_batches > 1
    assert stats.clip_share == 0.0


class Exploding:
    """Give a loss, or a loss with gradients, that is not finite."""

    needs = frozenset()

    def __init__(self, where):
        self.where = where

    def keeps(self, group):
        return True

    def advantages(self, batch):
        return batch.mask.float()

    def loss(self, outputs, batch):
        total = outputs.logprobs.sum()
        bad = total * torch.nan if self.where == "loss" else (total - total.detach()).abs().sqrt()
        return {"policy": Term(bad, "tokens")}


@pytest.mark.parametrize(("where", "word"), [("loss", "loss is nan"), ("gradient", "gradient norm is")])
def test_what_is_not_finite_makes_no_step_and_is_said(make_model, batch, where, word):
    policy = Policy(make_model(), Learner(), AdamW(), 5)
    before = policy.weights()
    stats = policy.update(batch, Exploding(where))
    assert word in stats.skipped
    assert stats.num_steps == 0
    assert all(torch.equal(before[name], tensor) for name, tensor in policy.weights().items())
    assert policy.update(batch, SFT()).skipped == ""


def test_loaded_weights_are_what_the_next_step_starts_from(make_model, batch):
    policy = Policy(make_model(), Learner(), AdamW(learning_rate=0.0), 5)
    wanted = {name: torch.full_like(tensor, 0.01) for name, tensor in policy.weights().items()}
    policy.load_weights(wanted)
    policy.update(prepared(policy, batch, SFT()), SFT())
    assert all(torch.equal(wanted[name], tensor) for name, tensor in policy.weights().items())
