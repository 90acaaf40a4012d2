"""Log-probabilities of scored tokens: the language-model head in chunks, so full logits never exist."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CHUNK_LOGITS = 2**22
"""Logits held at once (16 MiB in float32): about what a last-level cache keeps."""
MIN_CHUNK = 128
"""Rows below which a matrix product is bound by reading the head's weights."""


class Scored(NamedTuple):
    """Float32 [n]: log-probabilities of the targets, and the distributions' entropies in nats."""

    logprobs: Tensor
    entropy: Tensor | None


def scored_logprobs(
    hidden: Tensor, head: nn.Linear, targets: Tensor, temperature: Tensor, *, entropy: bool = False
) -> Scored:
    """Return log softmax(head(hidden) / temperature) at `targets`, with gradients.

    hidden [n, hidden] in the model's dtype; targets int64 [n]; temperature float32 [n]. Logits are
    computed in the model's dtype and normalised in float32 (float64 stays float64), as in sampling.
    """
    if head.weight.requires_grad:
        return _checkpointed(hidden, head, targets, temperature, entropy)
    logprobs, entropies = _FrozenHead.apply(hidden, head.weight, head.bias, targets, temperature, entropy)  # type: ignore[no-untyped-call]
    return Scored(logprobs, entropies if entropy else None)


def chunk_rows(vocabulary: int) -> int:
    """Return how many rows of logits are held at once."""
    return max(MIN_CHUNK, CHUNK_LOGITS // vocabulary)


class _Softmax(NamedTuple):
    """Logits less their maximum, these to the power of e [n, vocabulary], and the sums of those [n, 1].

    torch.log_softmax adds 49k exponentials on a CPU with an error near 1e-5, always to the same side;
    `sum` does not (tests compare both with float64).
    """

    scores: Tensor
    weights: Tensor
    total: Tensor

    def at(self, targets: Tensor) -> Tensor:
        """Return the log-probabilities of `targets` [n]."""
        return (self.scores.gather(1, targets[:, None]) - self.total.log())[:, 0]

    def entropy(self) -> Tensor:
        """Return −Σ p log p = log Σ e^z − Σ p z, in nats [n]."""
        mean = (self.weights * self.scores).sum(-1) / self.total[:, 0]
        return self.total[:, 0].log() - mean


def _softmax(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: Tensor) -> _Softmax:
    logits = F.linear(hidden, weight, bias)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    scores = logits.div_(temperature[:, None].to(logits.dtype))
    scores = scores.sub_(scores.detach().amax(-1, keepdim=True))
    weights = scores.exp()
    return _Softmax(scores, weights, weights.sum(-1, keepdim=True))


class _FrozenHead(torch.autograd.Function):
    """Give each log-probability with its gradient: two products, only [n, hidden] kept.

    With z = W h / T and p = softmax(z): ∂ log p_y / ∂h = Wᵀ (1_y − p) / T and
    ∂H / ∂h = −Wᵀ (p ⊙ (log p + H)) / T.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature: Tensor,
        entropy: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        slope = ctx.needs_input_grad[0]
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        logprobs = torch.empty(len(hidden), dtype=exact, device=hidden.device)
        entropies = torch.zeros_like(logprobs)
        slopes = [torch.empty_like(hidden) if wanted else None for wanted in (slope, slope and entropy)]
        step = chunk_rows(weight.shape[0])
        for start in range(0, len(hidden), step):
            at = slice(start, start + step)
            soft = _softmax(hidden[at], weight, bias, temperature[at])
            logprobs[at] = soft.at(targets[at])
            if entropy:
                entropies[at] = soft.entropy()
            scale = temperature[at, None] * soft.total
            if slopes[1] is not None:
                excess = soft.scores - soft.total.log() + entropies[at, None]
                slopes[1][at] = _to_hidden(soft.weights * excess, weight, scale)
            if slopes[0] is not None:
                away = soft.weights.scatter_add_(1, targets[at, None], -soft.total)
                slopes[0][at] = _to_hidden(away, weight, scale)
        ctx.save_for_backward(*slopes)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        total: Tensor | None = None
        for gradient, slope in zip(gradients, ctx.saved_tensors, strict=True):
            if slope is not None:
                part = (gradient[:, None] * slope).to(slope.dtype)
                total = part if total is None else total + part
        return total, None, None, None, None, None


def _to_hidden(gradient: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """Return −(gradient · W) / scale [n, 1]; only here the gradient is rounded to the head's dtype.

    Its probabilities are not divided by their total yet, which is part of the scale.
    """
    return gradient.to(weight.dtype) @ weight / -scale


def _checkpointed(
    hidden: Tensor, head: nn.Linear, targets: Tensor, temperature: Tensor, entropy: bool
) -> Scored:
    """Recompute each chunk's logits in the backward pass, where the head's weights need a gradient."""
    step = chunk_rows(head.weight.shape[0])
    parts = [
        checkpoint(
            _chunk, hidden[s : s + step], head, targets[s : s + step], temperature[s : s + step],
            use_reentrant=False, preserve_rng_state=False,
        )
        for s in range(0, max(1, len(hidden)), step)
    ]  # fmt: skip
    entropies = torch.cat([part[1] for part in parts]) if entropy else None
    return Scored(torch.cat([part[0] for part in parts]), entropies)


def _chunk(hidden: Tensor, head: nn.Linear, targets: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    soft = _softmax(hidden, head.weight, head.bias, temperature)
    return soft.at(targets), soft.entropy()
