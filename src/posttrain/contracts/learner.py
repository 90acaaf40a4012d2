"""The learner's numbers on a model and settings of one's own: layouts, packing, sampler, resume.

Each check gives an outcome with a measured number beside its bound; none leaves the weights changed,
unless it says so.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.contracts.outcome import Outcome, measured
from posttrain.contracts.plain import plain_outputs
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import LoraLinear, load_owned, owned
from posttrain.policy.optimizer import AdamW
from posttrain.policy.policy import Learner, Policy
from posttrain.protocols import Algorithm, Weights
from posttrain.records import checkpoint, fence
from posttrain.records.store import FolderStore

SHAKE = 0.05
"""How large a random change of the weights is, relative to the weights it is added to."""
CHANGE = 3.0
"""What is expected to differ must differ by this many times the bound, or nothing is proven."""
HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far numbers may be apart that are equal in exact arithmetic.

    gradient  norm of the difference / norm of the gradient
    logprob   mean absolute difference over sampled tokens, in nats
    logit     root mean square of the difference / root mean square of the logits
    """

    gradient: float
    logprob: float
    logit: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Bounds:
        """Return the bounds for a model computed in `dtype`.

        Measured on SmolLM2-135M (30 layers): float32 6e-5, 2e-5 and 0; bfloat16 0.15, 0.06 and 0.03.
        """
        if dtype in HALF:
            return cls(gradient=0.4, logprob=0.15, logit=0.06)
        return cls(gradient=1e-3, logprob=1e-3, logit=1e-3)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with its learner's settings, and a batch that its sampler wrote with its current weights.

    The batch has groups of several rows, unequal lengths and unequal rewards.
    """

    model: LanguageModel
    learner: Learner
    optimizer: AdamW
    algorithm: Algorithm
    batch: Batch

    @property
    def bounds(self) -> Bounds:
        return Bounds.of(self.model.dtype)

    def policy(self, **changes: object) -> Policy:
        """Return a fresh policy of one step a batch, with some of the learner's settings changed."""
        learner = replace(self.learner, updates_per_batch=1, **changes)  # type: ignore[arg-type]
        return Policy(self.model, learner, AdamW(learning_rate=0.0, clip_norm=0.0), 1)


def in_float32(model: LanguageModel) -> LanguageModel:
    """Return a copy of the model that computes in float32, in which faults of layout cannot hide."""
    module = copy.deepcopy(model.module).float()
    return replace(model, module=module, dtype=torch.float32)


def gradients_have_a_signal(subject: Subject) -> Outcome:
    """The batch moves the weights at all: otherwise no comparison of gradients says anything."""
    norm = _norm(_gradients(subject, layout="shared"))
    evidence = f"the gradient's norm is {norm:.2g}; it must be positive and finite"
    sound = 0.0 < norm < float("inf")
    return Outcome("the batch has a gradient", "holds" if sound else "broken", evidence, norm)


def shared_prompts_equal_full_rows(subject: Subject) -> Outcome:
    """A prompt computed once for its group gives the gradient of rows that each bring their own."""
    budget = _whole(subject.batch)
    shared = _gradients(subject, layout="shared", token_budget=budget)
    full = _gradients(subject, layout="full", token_budget=budget)
    return _compared("shared prompts = full rows", shared, full, subject.bounds)


def packed_rows_equal_rows_alone(subject: Subject) -> Outcome:
    """All rows packed give the gradient of a plain forward pass over each row alone."""
    packed = _gradients(subject, token_budget=_whole(subject.batch))
    return _compared("packed rows = rows alone", packed, _plain_gradients(subject), subject.bounds)


def accumulation_equals_one_batch(subject: Subject) -> Outcome:
    """Gradients summed over micro-batches of one row are those of the whole batch at once."""
    single = _gradients(subject, token_budget=1)
    whole = _gradients(subject, token_budget=_whole(subject.batch))
    return _compared("accumulated = one batch", single, whole, subject.bounds)


def sampler_equals_trainer(subject: Subject, rule: str = "sampler = trainer log-probabilities") -> Outcome:
    """What the sampler said of its tokens is what the learner says of them."""
    mean, most = _apart(subject.policy().logprobs(subject.batch), subject.batch)
    what = f"mean over {subject.batch.num_scored} tokens of |Δ log p|, largest {most:.2g}"
    return measured(rule, mean, subject.bounds.logprob, what)


def loads_reach_the_sampler(subject: Subject, old: Weights, resampled: Batch) -> list[Outcome]:
    """After a load the sampler's numbers are the new weights', and those of the old ones would differ.

    The model holds the new weights, `old` are those before; `resampled` is the batch of the same prompts
    after the load. The weights end as they were.
    """
    after = replace(subject, batch=resampled)
    outcomes = [sampler_equals_trainer(after, "after a load, log-probabilities are the new weights'")]
    new, fresh = after.policy().weights(), after.policy().logprobs(resampled)
    load_owned(subject.model.module, old)
    stale = after.policy().logprobs(resampled)
    load_owned(subject.model.module, new)
    difference = float((fresh - stale)[resampled.mask].abs().mean())
    what = "mean |Δ log p| between old and new weights"
    return [*outcomes, apart("old weights or caches would show", difference, subject.bounds.logprob, what)]


def resuming_changes_nothing(subject: Subject, folder: Path) -> Outcome:
    """A step from a checkpoint written to `folder` and read back is the step that would have followed.

    Steps with the run's own optimizer; the weights end as they were.
    """
    before = subject.policy().weights()
    learner = replace(subject.learner, token_budget=_whole(subject.batch))
    first = Policy(subject.model, learner, subject.optimizer, 4)
    _update(first, subject)
    tensors, numbers = first.state_dict()
    store = FolderStore(folder)
    checkpoint.save(store, 1, tensors, {"policy": numbers}, run_id="check", writer=fence.claim(store, -1))
    _update(first, subject)
    straight = first.weights()
    saved = checkpoint.latest(store, "check")
    assert saved is not None, "the checkpoint that was just written is there"
    second = Policy(subject.model, learner, subject.optimizer, 4)
    second.load_state_dict(saved.tensors, saved.state["policy"])
    restored = second.weights()
    _update(second, subject)
    resumed = second.weights()
    load_owned(subject.model.module, before)
    moved, difference = _distance(straight, restored), _distance(straight, resumed)
    # On a GPU sums may be taken in any order; on a CPU nothing may differ.
    bound = 0.0 if subject.model.device.type == "cpu" else subject.bounds.gradient * moved
    if moved == 0.0:
        return Outcome("resume = going on", "broken", "the step after the checkpoint changed no weight")
    what = f"largest difference of a weight after the next step, which moved them by up to {moved:.2g}"
    return measured("resume = going on", difference, bound, what)


def apart(rule: str, value: float, bound: float, what: str) -> Outcome:
    """Return whether two things that must differ do, by `CHANGE` times what equal ones may differ by."""
    least = CHANGE * bound
    return Outcome(
        rule,
        "holds" if value >= least else "broken",
        f"{what}: {value:.2g} (at least {least:.2g})",
        value,
        least,
    )


def shaken(model: LanguageModel, seed: int, share: float = SHAKE) -> dict[str, Tensor]:
    """Return the model's own weights with a random change added, a function of `seed`.

    With LoRA the change is in B, sized so that the update grows by about `share` of the weights it is for.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = {f"{n}.lora_B": _b_size(m) for n, m in model.module.named_modules() if isinstance(m, LoraLinear)}
    changed = {}
    for name, parameter in owned(model.module):
        size = sizes.get(name, 0.0) if sizes else _rms(parameter)
        noise = torch.randn(parameter.shape, generator=generator).to(parameter)
        changed[name] = parameter.detach() + share * size * noise
    return changed


def _b_size(layer: LoraLinear) -> float:
    """Return the deviation of B's entries at which scale · B A is as large as the base's weights."""
    rank = layer.lora_A.shape[0]
    return _rms(layer.base.weight) / (layer.scale * _rms(layer.lora_A) * math.sqrt(rank))


def _rms(tensor: Tensor) -> float:
    return float(tensor.detach().float().square().mean().sqrt())


def _whole(batch: Batch) -> int:
    """Return a token budget that holds the batch in one piece."""
    return 2 * int(batch.lengths.sum()) + 1


def _prepared(policy: Policy, subject: Subject) -> Batch:
    batch = policy.annotate(subject.batch, subject.algorithm.needs)
    return replace(batch, advantages=subject.algorithm.advantages(batch))


def _update(policy: Policy, subject: Subject) -> None:
    policy.update(_prepared(policy, subject), subject.algorithm)


def _gradients(subject: Subject, **changes: object) -> dict[str, Tensor]:
    """Return what an update would step on, by name, by an update whose learning rate is 0."""
    policy = subject.policy(**changes)
    found: dict[str, Tensor] = {}

    def keep(name: str) -> None:
        parameter = parameters[name]
        assert parameter.grad is not None
        found[name] = parameter.grad.detach().clone()

    parameters = {name: p for name, p in owned(subject.model.module) if p.requires_grad}
    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: keep(name))  # type: ignore[no-untyped-call]
        for name, parameter in parameters.items()
    ]
    try:
        _update(policy, subject)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _plain_gradients(subject: Subject) -> dict[str, Tensor]:
    """Return the gradients of the same loss through a forward pass over each row alone."""
    batch = _prepared(subject.policy(), subject).to(subject.model.device)
    parameters = {name: p for name, p in owned(subject.model.module) if p.requires_grad}
    counts = {"tokens": max(1, batch.num_scored), "rows": batch.num_rows, "constant": 1}
    with torch.enable_grad():
        terms = subject.algorithm.loss(plain_outputs(subject.model.module, batch.to("cpu")), batch)
        loss = torch.stack([term.sum / counts[term.denominator] for term in terms.values()]).sum()
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {name: g for name, g in zip(parameters, found, strict=True) if g is not None}


def _compared(rule: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], bounds: Bounds) -> Outcome:
    if ours.keys() != theirs.keys():
        odd = sorted(ours.keys() ^ theirs.keys())
        return Outcome(rule, "broken", f"only one side has a gradient of {odd[0]}")
    difference = {name: ours[name].float() - theirs[name].float() for name in ours}
    what = "difference of the gradients as a share of their norm"
    return measured(rule, _norm(difference) / max(_norm(theirs), 1e-30), bounds.gradient, what)


def _norm(tensors: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors.values()))


def _distance(first: Weights, second: Weights) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def _apart(logprobs: Tensor, batch: Batch) -> tuple[float, float]:
    """Return the mean and the largest absolute difference to the sampler's log-probabilities."""
    difference = (logprobs - batch.sampler_logprobs)[batch.mask].abs()
    return float(difference.mean()), float(difference.max())
