"""The plainest forward pass, to compare the others with: each row alone, full logits, log-softmax."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from posttrain.batch import Batch
from posttrain.models.forward import OneSequence, head_weight, hidden_states
from posttrain.protocols import Outputs


def plain_outputs(module: PreTrainedModel, batch: Batch) -> Outputs:
    """Return log-probabilities and entropies [row, time] of the batch's rows, on the module's device.

    Gradients flow where they are enabled. Shares nothing with the learner but the model's own layers.
    """
    rows = [_row(module, batch, row) for row in range(batch.num_rows)]
    return Outputs(torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows]))


def token_logprobs(
    module: PreTrainedModel, prompt: tuple[int, ...], tokens: tuple[int, ...], temperature: float
) -> Tensor:
    """Return the log-probabilities [len(tokens)] (float32, CPU) of `tokens` after `prompt`."""
    with torch.no_grad():
        logits = _logits(module, torch.tensor([*prompt, *tokens]), temperature)[len(prompt) - 1 : -1]
        chosen = torch.tensor(tokens, device=logits.device)[:, None]
        return logits.log_softmax(-1).gather(1, chosen)[:, 0].float().cpu()


def _row(module: PreTrainedModel, batch: Batch, row: int) -> tuple[Tensor, Tensor]:
    length = int(batch.lengths[row])
    mask = batch.mask[row].to(module.device)
    places = batch.mask[row, :length].nonzero()[:, 0]
    scores = _logits(module, batch.tokens[row, :length], float(batch.temperature[row]))[places - 1]
    logprobs = scores.log_softmax(-1)
    chosen = batch.tokens[row, places].to(module.device)[:, None]
    entropies = -(logprobs.exp() * logprobs).sum(-1)
    zeros = torch.zeros(mask.shape, dtype=logprobs.dtype, device=module.device)
    return zeros.masked_scatter(mask, logprobs.gather(1, chosen)[:, 0]), zeros.masked_scatter(mask, entropies)


def _logits(module: PreTrainedModel, tokens: Tensor, temperature: float) -> Tensor:
    """Return scaled logits [time, vocabulary] of one sequence, at least in float32."""
    tokens = tokens.to(module.device)
    hidden = hidden_states(module, tokens, torch.arange(len(tokens), device=module.device), OneSequence())
    logits: Tensor = head_weight(module)(hidden)
    return (logits if logits.dtype == torch.float64 else logits.float()) / temperature
