"""The learner's numeric checks hold on a sound learner, and each notices the fault that it is there for."""

import asyncio
from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from posttrain.algorithms.grpo import GRPO
from posttrain.batch import Batch
from posttrain.contracts import learner as contract
from posttrain.contracts.learner import Subject, shaken
from posttrain.contracts.plain import plain_outputs
from posttrain.engines.torch import TorchEngine
from posttrain.models.forward import ATTENTION
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora, add_lora, load_owned, owned
from posttrain.policy import policy as policies
from posttrain.policy.optimizer import AdamW, Optimizer
from posttrain.policy.policy import Learner, Policy
from posttrain.protocols import Request, SampleKey, Sampling, Term
from posttrain.types import Group, Message, Reward, Task, Trajectory, Turn

PROMPTS = ((4, 5, 6, 9, 11), (7, 8))
LIMITS = (2, 5, 9)


def model(dtype: torch.dtype = torch.float32) -> LanguageModel:
    config = LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, attn_implementation=ATTENTION,
        initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = LlamaForCausalLM(config).to(dtype)
    add_lora(module, Lora(rank=2, alpha=4.0), seed=1)
    made = LanguageModel(
        module, PreTrainedTokenizerBase(), torch.device("cpu"), dtype, 64, frozenset({1}), "small"
    )
    load_owned(module, shaken(made, seed=1))
    return made


def sampled(of: LanguageModel, engine: TorchEngine, load: bool = True) -> Batch:
    async def work():
        if load:
            weights = {name: parameter.detach().clone() for name, parameter in owned(of.module)}
            await engine.load(weights, engine.version + 1)
        return await engine.generate(wave)

    wave = [
        Request(prompt, SampleKey(3, "probe", group, attempt), Sampling(max_tokens=limit))
        for group, prompt in enumerate(PROMPTS)
        for attempt, limit in enumerate(LIMITS)
    ]
    task = Task("t", "d", 0, (Message("user", "?"),), {})
    attempts = [
        Trajectory(
            task,
            (Turn(task.prompt[0], r.prompt), Turn(Message("assistant", ""), c.tokens, c.logprobs, 0)),
            c.stop,
        )
        for r, c in zip(wave, asyncio.run(work()), strict=True)
    ]
    rewards = (Reward(1.0), Reward(0.0), Reward(0.25))
    return Batch.of([Group(i, task, tuple(attempts[3 * i : 3 * i + 3]), rewards) for i in range(2)])


@pytest.fixture
def subject() -> Subject:
    made = model()
    batch = sampled(made, TorchEngine(made))
    return Subject(made, Learner(), AdamW(learning_rate=1e-2), GRPO(), batch)


GRADIENTS = [
    contract.shared_prompts_equal_full_rows,
    contract.packed_rows_equal_rows_alone,
    contract.accumulation_equals_one_batch,
]


@pytest.mark.parametrize(
    "check", [contract.gradients_have_a_signal, *GRADIENTS, contract.sampler_equals_trainer]
)
def test_a_sound_learner_keeps_every_bound_and_its_weights(subject, check):
    before = subject.policy().weights()
    outcome = check(subject)
    assert outcome.status == "holds", outcome
    assert outcome.bound is None or outcome.value < outcome.bound / 10
    assert all(torch.equal(before[name], tensor) for name, tensor in subject.policy().weights().items())


class LocalMean:
    """A loss that divides by its own micro-batch's tokens and calls that constant."""

    inner = GRPO()
    needs = frozenset()

    def keeps(self, group):
        return self.inner.keeps(group)

    def advantages(self, batch):
        return self.inner.advantages(batch)

    def loss(self, outputs, batch):
        total = -(batch.advantages * outputs.logprobs * batch.mask).sum()
        return {"policy": Term(total / batch.num_scored, "constant")}


def test_a_wrong_denominator_shows_in_accumulation(subject):
    outcome = contract.accumulation_equals_one_batch(replace(subject, algorithm=LocalMean()))
    assert outcome.status == "broken"
    assert outcome.value > 0.1


class Silent(LocalMean):
    def advantages(self, batch):
        return torch.zeros_like(batch.sampler_logprobs)


def test_a_batch_without_a_gradient_proves_nothing_and_is_said(subject):
    assert contract.gradients_have_a_signal(replace(subject, algorithm=Silent())).status == "broken"


def test_a_prompt_cut_off_from_the_gradient_is_found(subject, monkeypatch):
    real = policies.hidden_states

    def detached(module, tokens, positions, attend):
        hidden = real(module, tokens, positions, attend)
        return torch.where((positions < 2)[:, None], hidden.detach(), hidden)

    # The rows alone do not pass through here, so only one side loses the prompt's last gradient.
    monkeypatch.setattr(policies, "hidden_states", detached)
    assert contract.packed_rows_equal_rows_alone(subject).status == "broken"


def test_a_layout_that_misplaces_positions_is_found(subject, monkeypatch):
    real = policies.lay_out

    def shifted(batch, kind, device):
        made = real(batch, kind, device)
        return replace(made, positions=made.positions + (made.positions > 5)) if kind == "shared" else made

    monkeypatch.setattr(policies, "lay_out", shifted)
    assert contract.shared_prompts_equal_full_rows(subject).status == "broken"
    assert contract.packed_rows_equal_rows_alone(subject).status == "broken"


def test_another_temperature_than_the_sampler_s_is_found(subject):
    hotter = replace(subject.batch, temperature=torch.full((6,), 1.3))
    outcome = contract.sampler_equals_trainer(replace(subject, batch=hotter))
    assert outcome.status == "broken"
    assert outcome.value > 0.01


def after_a_load(subject: Subject, engine: TorchEngine, load: bool):
    """Move the model to other weights, sample again, and check the load."""
    sampled(subject.model, engine)
    old = subject.policy().weights()
    load_owned(subject.model.module, shaken(subject.model, seed=2, share=0.5))
    return contract.loads_reach_the_sampler(subject, old, sampled(subject.model, engine, load))


def test_a_load_that_reaches_the_sampler_holds_and_would_have_shown(subject):
    fresh, power = after_a_load(subject, TorchEngine(subject.model), load=True)
    assert (fresh.status, power.status) == ("holds", "holds")
    assert power.value > 100 * fresh.value


def test_a_sampler_that_keeps_the_old_weights_is_found(subject):
    stale, _ = after_a_load(subject, TorchEngine(subject.model), load=False)
    assert stale.status == "broken"


def test_weights_that_hardly_differ_prove_nothing_and_are_said(subject):
    engine = TorchEngine(subject.model)
    again = sampled(subject.model, engine)
    fresh, power = contract.loads_reach_the_sampler(subject, subject.policy().weights(), again)
    assert (fresh.status, power.status) == ("holds", "broken")


def test_resume_is_exact_and_leaves_the_weights(subject, tmp_path):
    before = subject.policy().weights()
    outcome = contract.resuming_changes_nothing(subject, tmp_path)
    assert (outcome.status, outcome.value, outcome.bound) == ("holds", 0.0, 0.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in subject.policy().weights().items())


def test_a_state_without_the_optimizer_s_moments_is_found(subject, tmp_path, monkeypatch):
    real = Optimizer.load_state_dict

    def forgetful(self, tensors, numbers):
        real(self, tensors, {**numbers, "parameter_steps": {}})

    monkeypatch.setattr(Optimizer, "load_state_dict", forgetful)
    assert contract.resuming_changes_nothing(subject, tmp_path).status == "broken"


def test_a_step_count_that_starts_again_is_found_through_the_schedule(subject, tmp_path, monkeypatch):
    scheduled = replace(subject, optimizer=AdamW(learning_rate=1e-2, schedule="linear"))
    assert contract.resuming_changes_nothing(scheduled, tmp_path / "sound").status == "holds"
    real = Optimizer.load_state_dict
    monkeypatch.setattr(
        Optimizer, "load_state_dict", lambda self, t, numbers: real(self, t, {**numbers, "num_steps": 0})
    )
    assert contract.resuming_changes_nothing(scheduled, tmp_path / "broken").status == "broken"


def test_a_copy_in_float32_compares_gradients_sharply_where_bf16_cannot():
    made = model(torch.bfloat16)
    batch = sampled(made, TorchEngine(made))
    subject = Subject(made, Learner(), AdamW(), GRPO(), batch)
    exact = replace(subject, model=contract.in_float32(made))
    assert contract.packed_rows_equal_rows_alone(exact).value < 1e-5 < 1e-4
    assert contract.packed_rows_equal_rows_alone(subject).value > 1e-4
    assert made.module.dtype == torch.bfloat16


def test_plain_log_probabilities_are_transformers_own(subject):
    with torch.no_grad():
        found = plain_outputs(subject.model.module, subject.batch)
    policy = Policy(subject.model, Learner(layout="full"), AdamW(), 1)
    assert float((found.logprobs - policy.logprobs(subject.batch)).abs().max()) < 1e-5
    first = subject.batch.mask[0].nonzero()[0, 0]
    tokens = subject.batch.tokens[0, : first + 1]
    peer = LlamaForCausalLM(subject.model.module.config)
    state = {n.replace(".base.", "."): p for n, p in subject.model.module.state_dict().items()}
    merged = {n: p for n, p in state.items() if "lora_" not in n}
    for name, layer in subject.model.module.named_modules():
        if hasattr(layer, "lora_A"):
            merged[f"{name}.weight"] = layer.base.weight + layer.scale * layer.lora_B @ layer.lora_A
    peer.load_state_dict(merged)
    peer.set_attn_implementation("eager")
    with torch.no_grad():
        logits = peer.eval()(tokens[None]).logits[0, -2]
    expected = logits.log_softmax(-1)
    assert float(found.logprobs[0, first]) == pytest.approx(float(expected[tokens[-1]]), abs=1e-5)
    entropy = -(expected.exp() * expected).sum()
    assert float(found.entropy[0, first]) == pytest.approx(float(entropy), abs=1e-5)
