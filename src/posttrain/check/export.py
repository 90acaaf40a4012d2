"""Is what was trained in what is exported? Read it back with PEFT or transformers and compare logits."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from posttrain.contracts.learner import Bounds, apart
from posttrain.contracts.outcome import Outcome, measured
from posttrain.models.adapter import save_adapter, save_merged
from posttrain.models.folder import quiet
from posttrain.models.forward import OneSequence, head_weight, hidden_states
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import Lora
from posttrain.models.source import resolve

MEMINFO = Path("/proc/meminfo")


def export_holds_what_was_trained(
    model: LanguageModel, lora: Lora | None, tokens: Tensor, folder: Path
) -> list[Outcome]:
    """Export into `folder` as a run does and compare the logits on `tokens` (int64 [time]) with our own.

    A second copy of the base is loaded beside the first; without the memory for it, nothing is checked.
    """
    rule = "the export gives the trained logits"
    needed, free = _num_bytes(model.module), available_bytes()
    if free is not None and needed > free:
        why = f"a second copy of the model needs {needed / 2**30:.1f} GiB, {free / 2**30:.1f} are free"
        return [Outcome(rule, "skipped", why)]
    ours, bound = _our_logits(model, tokens), Bounds.of(model.dtype).logit
    base = _read(resolve(model.source), model)
    plain = _their_logits(base, tokens)
    if lora is None:
        del base
        save_merged(model, folder)
        exported = _read(folder, model)
    else:
        save_adapter(model.module, lora, folder, model.source)
        exported = _with_adapter(base, folder)
    theirs, scale = _their_logits(exported, tokens), _rms(ours)
    what = "difference of the logits as a share of their size"
    return [
        measured(rule, _rms(ours - theirs) / scale, bound, what),
        apart("the export differs from the base", _rms(theirs - plain) / scale, bound, what),
    ]


def available_bytes() -> int | None:
    """Return the memory that can be had without swapping; None where the system does not say."""
    if not MEMINFO.is_file():
        return None
    for line in MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _with_adapter(base: PreTrainedModel, folder: Path) -> torch.nn.Module:
    from peft import PeftModel

    merged: torch.nn.Module = PeftModel.from_pretrained(base, str(folder))
    return merged.eval()


def _read(where: Path | str, model: LanguageModel) -> PreTrainedModel:
    with quiet():
        read = AutoModelForCausalLM.from_pretrained(
            where, dtype=model.dtype, trust_remote_code=False, local_files_only=True
        )
    placed: PreTrainedModel = read.to(model.device).eval()
    return placed


@torch.no_grad()
def _our_logits(model: LanguageModel, tokens: Tensor) -> Tensor:
    tokens = tokens.to(model.device)
    places = torch.arange(len(tokens), device=model.device)
    hidden = hidden_states(model.module, tokens, places, OneSequence())
    logits: Tensor = head_weight(model.module)(hidden)
    return logits.float().cpu()


@torch.no_grad()
def _their_logits(module: torch.nn.Module, tokens: Tensor) -> Tensor:
    device = next(module.parameters()).device
    logits: Tensor = module(tokens[None].to(device)).logits[0]
    return logits.float().cpu()


def _num_bytes(module: PreTrainedModel) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


def _rms(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())
