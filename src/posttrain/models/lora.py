"""LoRA: one arithmetic for sampler and trainer over a shared, frozen base.

Hu et al. 2021 (arXiv:2106.09685), eq. 3: y = W x + (alpha / rank) · B A x. Adapters are kept in float32
and computed in the base's dtype; names and scaling are those of PEFT.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn
from torch.nn import functional as F

from posttrain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Lora:
    """Settings of the adapter; `targets` are names of linear layers, empty for all but the head."""

    rank: Annotated[int, Ge(1), Le(4096)] = 16
    alpha: Annotated[float, Gt(0)] = 32.0
    targets: tuple[str, ...] = ()


class LoraLinear(nn.Module):
    """A frozen linear layer with a low-rank update: `lora_A` [rank, in], `lora_B` [out, rank]."""

    def __init__(self, base: nn.Linear, lora: Lora, generator: torch.Generator) -> None:
        super().__init__()
        self.base = base
        self.scale = lora.alpha / lora.rank
        bound = math.sqrt(1.0 / base.in_features)  # PEFT's kaiming_uniform(a = sqrt 5)
        start = torch.empty(lora.rank, base.in_features).uniform_(-bound, bound, generator=generator)
        device = base.weight.device
        self.lora_A = nn.Parameter(start.to(device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, lora.rank, device=device))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        low = F.linear(flat, self.lora_A.to(x.dtype)) * self.scale
        # In place: no backward pass reads the base's output, so it need not be copied.
        out: Tensor = self.base(flat)
        out.addmm_(low, self.lora_B.to(x.dtype).t())
        return out.view(*x.shape[:-1], out.shape[-1])


def add_lora(module: nn.Module, lora: Lora, seed: int) -> None:
    """Freeze `module` and put an adapter on its linear layers, in place; initialised from `seed`."""
    generator = torch.Generator().manual_seed(seed)
    module.requires_grad_(False)
    head = getattr(module, "get_output_embeddings", lambda: None)()
    wanted = [
        (name, layer)
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Linear)
        and layer is not head
        and (not lora.targets or name.rsplit(".", 1)[-1] in lora.targets)
    ]
    if not wanted:
        names = sorted({n.rsplit(".", 1)[-1] for n, m in module.named_modules() if isinstance(m, nn.Linear)})
        raise ConfigError(
            f"no linear layer is named any of {list(lora.targets)}"
            if lora.targets
            else "no linear layer to adapt",
            key="model.lora.targets",
            hint=f"This model has {', '.join(names)}.",
        )
    for name, layer in wanted:
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, LoraLinear(layer, lora, generator))


def twin(module: nn.Module) -> nn.Module:
    """Return a copy with adapters (or, without any, all weights) of its own over the shared frozen base.

    The copy is for inference: nothing in it requires gradients, and its adapters are already in the
    base's dtype, the very values that training computes with.
    """
    adapted = any(isinstance(layer, LoraLinear) for layer in module.modules())
    shared: dict[int, Tensor] = {id(p): p for p in module.parameters() if adapted and not p.requires_grad}
    shared |= {id(b): b for b in module.buffers()}
    copied = copy.deepcopy(module, dict(shared))
    copied.requires_grad_(False)
    for layer in copied.modules():
        if isinstance(layer, LoraLinear):
            for parameter in (layer.lora_A, layer.lora_B):
                parameter.data = parameter.data.to(layer.base.weight.dtype)
    return copied.eval()


def owned(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters that belong to the policy: its adapters, or all weights without any."""
    adapters = [(n, p) for n, p in module.named_parameters() if n.rpartition(".")[2] in ("lora_A", "lora_B")]
    yield from adapters or module.named_parameters()


def load_owned(module: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the module's own parameters; names and shapes must match exactly."""
    parameters = dict(owned(module))
    if parameters.keys() != weights.keys():
        odd = sorted(parameters.keys() ^ weights.keys())
        raise ConfigError(f"weights do not fit the model: {odd[:3]} … differ", key="model.lora")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise ConfigError(
                    f"{name} has shape {tuple(weights[name].shape)}, "
                    f"the model wants {tuple(parameter.shape)}",
                    key="model.lora.rank",
                )
            parameter.copy_(weights[name])
