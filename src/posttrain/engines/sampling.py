"""Draw tokens: keyed uniform numbers and one inverse-CDF search for each row, on any device.

No random state is read or advanced: what is drawn is a function of logits, settings and uniforms.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posttrain.protocols import SampleKey

CHUNK = 256
"""Vocabulary entries in one chunk of the search: about the square root of usual vocabularies."""

BELOW_ONE = 1.0 - 2.0**-24
"""The largest float32 below 1; multiplying by it gives a smaller positive float32."""


def uniforms(key: SampleKey, count: int) -> NDArray[np.float32]:
    """Return float32 [count] in [0, 1), one for each token position; a longer draw extends a shorter one.

    Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") keyed by a hash of the key's
    fields; raw words are used because numpy keeps those stable between releases.
    """
    text = f"{key.seed}/{key.purpose}/{key.group}/{key.attempt}/{key.turn}"
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    words = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
    top_bits: NDArray[np.float32] = (words >> np.uint64(40)).astype(np.float32)
    return top_bits * np.float32(2.0**-24)


def sample(
    logits: Tensor,
    uniform: Tensor,
    temperature: Tensor,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return sampled tokens (int64 [rows]) and their log-probabilities (float32 [rows]).

    `logits` [rows, vocabulary]; `uniform`, `temperature` and `top_p` float32 [rows]; `top_k` int64 [rows],
    0 for the whole vocabulary. The log-probability is that of the sampling distribution: tempered, and
    renormalised over the kept support.
    """
    scores = logits.float() if logits.dtype != torch.float32 else logits.clone()
    scores -= scores.amax(-1, keepdim=True)
    scores /= temperature[:, None]
    weights = scores.exp_()
    if top_k is not None and top_p is not None:
        weights = weights * support(weights, top_k, top_p)
    tokens, total = invert(weights, uniform)
    chosen = weights.gather(1, tokens[:, None])[:, 0]
    return tokens, torch.log(chosen) - torch.log(total)


def invert(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first index whose cumulative weight exceeds `uniform` × total, and the total.

    `weights` float32 [rows, size], not negative; an index of weight 0 is never returned. The search has two
    levels (sums of chunks, then inside one chunk), so no cumulative sum over the vocabulary is written.
    """
    rows, size = weights.shape
    if size % CHUNK:
        weights = torch.nn.functional.pad(weights, (0, CHUNK - size % CHUNK))
    chunks = weights.view(rows, -1, CHUNK)
    ends = chunks.sum(-1).cumsum(-1)
    total = ends[:, -1]
    chunk, target = _search(ends, uniform * total)
    inner = chunks[torch.arange(rows, device=weights.device), chunk].cumsum(-1)
    index, _ = _search(inner, target)
    return chunk * CHUNK + index, total


def _search(ends: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's first index with `ends` > `target`, and how far the target lies into it.

    Rounding may have put the target at or beyond the last end: it is pulled just below.
    """
    target = torch.minimum(target, ends[:, -1] * BELOW_ONE)[:, None]
    index = torch.searchsorted(ends, target, right=True)
    start = torch.where(index > 0, ends.gather(1, (index - 1).clamp_min(0)), torch.zeros_like(target))
    return index[:, 0], (target - start)[:, 0]


def support(weights: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    """Return which entries are kept, bool [rows, size]: the top_k heaviest, then of these the top_p nucleus.

    The nucleus (Holtzman et al. 2020, arXiv:1904.09751, eq. 2) is the smallest set of heaviest entries whose
    share of the top-k mass reaches top_p; of equal weights the lower index is kept first.
    """
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(weights.shape[1], device=weights.device)
    limit = torch.where(top_k > 0, top_k, weights.shape[1])[:, None]
    ordered = ordered.masked_fill(rank >= limit, 0.0)
    before = ordered.cumsum(-1) - ordered
    inside = (before < top_p[:, None] * ordered.sum(-1, keepdim=True)) | (top_p[:, None] >= 1.0)
    kept = inside & (rank < limit) | (rank == 0)
    return torch.zeros_like(kept).scatter(1, order, kept)
