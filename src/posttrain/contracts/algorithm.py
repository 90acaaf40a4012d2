"""What every algorithm must hold to: `check(algorithm)` raises AssertionError where it does not.

Run it on your own: `from posttrain.contracts.algorithm import check; check(MyAlgorithm())`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posttrain.batch import Batch
from posttrain.protocols import Algorithm, Outputs


def check(algorithm: Algorithm, *, compares: bool = True) -> None:
    """Run the whole suite; `compares` is False for algorithms that do not compare rows (SFT)."""
    advantages_fit_the_batch(algorithm)
    if compares:
        equal_rewards_teach_nothing(algorithm)
    losses_are_finite_at_extreme_ratios(algorithm)
    losses_do_not_depend_on_micro_batches(algorithm)
    tokens_outside_the_mask_have_no_gradient(algorithm)


def example_batch() -> Batch:
    """Return 2 groups × 3 rows with answers of 1 to 4 tokens; every optional tensor is present."""
    lengths = torch.tensor([4, 6, 5, 7, 5, 4])
    prompts = torch.tensor([2, 2, 2, 3, 3, 3])
    time = torch.arange(7)
    mask = (time >= prompts[:, None]) & (time < lengths[:, None])
    wave = torch.sin(torch.arange(42.0)).view(6, 7)
    sampler = torch.where(mask, -1.0 + 0.5 * wave, 0.0)
    return Batch(
        tokens=torch.where(time < lengths[:, None], time + 1, 0),
        mask=mask,
        turn=torch.where(mask, 0, -1),
        sampler_logprobs=sampler,
        rewards=torch.tensor([1.0, 0.0, 0.0, 0.5, 0.25, 0.0]),
        turn_rewards=torch.zeros(6, 7),
        advantages=torch.zeros(6, 7),
        lengths=lengths,
        prompt_lengths=prompts,
        group=torch.tensor([0, 0, 0, 1, 1, 1]),
        domain=torch.tensor([0, 0, 0, 1, 1, 1]),
        temperature=torch.ones(6),
        row_weight=torch.tensor([1.0, 1.0, 1.0, 0.5, 0.5, 0.5]),
        anchor_logprobs=torch.where(mask, sampler - 0.05 * wave, 0.0),
        reference_logprobs=torch.where(mask, sampler + 0.1 * wave, 0.0),
        values=torch.where(mask, 0.1 * wave, 0.0),
    )


def advantages_fit_the_batch(algorithm: Algorithm) -> None:
    """Advantages are finite, shaped like the tokens, and 0 outside the mask."""
    batch = example_batch()
    advantages = algorithm.advantages(batch)
    assert advantages.shape == batch.tokens.shape, f"advantages have shape {tuple(advantages.shape)}"
    assert bool(advantages.isfinite().all()), "an advantage is not finite"
    assert bool((advantages[~batch.mask] == 0).all()), "a token outside the mask has an advantage"


def equal_rewards_teach_nothing(algorithm: Algorithm) -> None:
    """Equal rewards give advantages of exactly 0, where the policy is still the reference."""
    for reward in (0.0, 0.1, 1.0, 1e-8, 1e8):
        batch = example_batch()
        batch = replace(batch, rewards=torch.full((6,), reward), reference_logprobs=batch.anchor_logprobs)
        assert bool((algorithm.advantages(batch) == 0).all()), f"equal rewards of {reward} have an advantage"


def losses_are_finite_at_extreme_ratios(algorithm: Algorithm) -> None:
    """Losses and their gradients stay finite when policy and sampler disagree wildly."""
    for current, sampled in ((-500.0, -1e-6), (-1e-6, -500.0)):
        batch = _prepared(algorithm)
        other = torch.where(batch.mask, sampled, 0.0)
        batch = replace(batch, sampler_logprobs=other, anchor_logprobs=other, reference_logprobs=other)
        outputs, inputs = _outputs(batch, torch.where(batch.mask, current, 0.0))
        total = _total(algorithm, outputs, batch, batch)
        assert bool(total.isfinite()), f"the loss is {float(total)}"
        for gradient in _gradients(total, inputs):
            assert bool(gradient.isfinite().all()), "a gradient is not finite"


def losses_do_not_depend_on_micro_batches(algorithm: Algorithm) -> None:
    """Micro-batches, divided by the whole batch's counts, add up to its loss and have its gradients."""
    batch = _prepared(algorithm)
    outputs, inputs = _outputs(batch, batch.sampler_logprobs - 0.1)
    whole = _total(algorithm, outputs, batch, batch)
    slopes = _gradients(whole, inputs)
    for split in ([[0, 1, 2, 3], [4, 5]], [[0], [1, 2], [3], [4], [5]]):
        parts = torch.zeros(())
        for rows in map(torch.tensor, split):
            part = batch.rows(rows)
            outputs, inputs = _outputs(part, part.sampler_logprobs - 0.1)
            share = _total(algorithm, outputs, part, batch)
            for slope, own in zip(slopes, _gradients(share, inputs), strict=True):
                expected = slope[rows, : own.shape[1]]
                assert torch.allclose(expected, own, atol=1e-6), "a gradient depends on the micro-batch"
            parts = parts + share.detach()
        assert torch.allclose(whole, parts, atol=1e-6), f"whole {float(whole)}, in parts {float(parts)}"


def tokens_outside_the_mask_have_no_gradient(algorithm: Algorithm) -> None:
    """Only what the policy wrote is trained on, and something is."""
    batch = _prepared(algorithm)
    outputs, inputs = _outputs(batch, batch.sampler_logprobs - 0.1)
    gradients = _gradients(_total(algorithm, outputs, batch, batch), inputs)
    for gradient in gradients:
        assert bool((gradient[~batch.mask] == 0).all()), "a token outside the mask has a gradient"
    assert any(bool((gradient != 0).any()) for gradient in gradients), "nothing is trained"


def _prepared(algorithm: Algorithm) -> Batch:
    batch = example_batch()
    return replace(batch, advantages=algorithm.advantages(batch))


def _outputs(batch: Batch, logprobs: Tensor) -> tuple[Outputs, list[Tensor]]:
    inputs = [logprobs.clone().requires_grad_(), torch.where(batch.mask, 0.7, 0.0).requires_grad_()]
    assert batch.values is not None
    inputs.append(batch.values.clone().requires_grad_())
    return Outputs(*inputs), inputs


def _total(algorithm: Algorithm, outputs: Outputs, part: Batch, whole: Batch) -> Tensor:
    counts = {"tokens": whole.num_scored, "rows": whole.num_rows, "constant": 1}
    return sum(
        (term.sum / counts[term.denominator] for term in algorithm.loss(outputs, part).values()),
        start=torch.zeros(()),
    )


def _gradients(total: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    if not total.requires_grad:
        return [torch.zeros_like(part) for part in inputs]
    found = torch.autograd.grad(total, inputs, allow_unused=True)
    return [torch.zeros_like(part) if g is None else g for part, g in zip(inputs, found, strict=True)]
