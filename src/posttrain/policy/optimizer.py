"""AdamW on float32 masters, with clipping and a schedule; its state is flat tensors and plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, nn

from posttrain.errors import ConfigError
from posttrain.policy.schedule import Schedule, learning_rate_factor
from posttrain.types import JSON


@dataclass(frozen=True, slots=True)
class AdamW:
    """Settings: Loshchilov and Hutter 2019 (arXiv:1711.05101), algorithm 2.

    `clip_norm` bounds the global gradient norm (0: no bound); `final_fraction` is where the linear and
    cosine schedules end, as a share of `learning_rate`.
    """

    learning_rate: Annotated[float, Gt(0)] = 1e-4
    betas: tuple[Annotated[float, Ge(0), Lt(1)], Annotated[float, Ge(0), Lt(1)]] = (0.9, 0.99)
    weight_decay: Annotated[float, Ge(0)] = 0.0
    clip_norm: Annotated[float, Ge(0)] = 1.0
    warmup_steps: Annotated[int, Ge(0)] = 0
    schedule: Schedule = "constant"
    final_fraction: Annotated[float, Ge(0), Le(1)] = 0.0


class Optimizer:
    """Step named parameters; those below float32 are stepped on a float32 copy and rounded back."""

    def __init__(
        self, settings: AdamW, parameters: Iterable[tuple[str, nn.Parameter]], total_steps: int
    ) -> None:
        self.settings = settings
        self.total_steps = total_steps
        self.num_steps = 0
        self._parameters = {name: p for name, p in parameters if p.requires_grad}
        if not self._parameters:
            raise ConfigError("the model has no trainable parameter", key="model", hint="Add LoRA.")
        self._masters = {name: _master(p) for name, p in self._parameters.items()}
        on_known = all(p.device.type in ("cpu", "cuda") for p in self._parameters.values())
        self._adamw = torch.optim.AdamW(
            self._masters.values(),
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=on_known,
        )

    @property
    def learning_rate(self) -> float:
        """Return the learning rate of the next step."""
        s = self.settings
        return s.learning_rate * learning_rate_factor(
            self.num_steps, self.total_steps,
            warmup_steps=s.warmup_steps, schedule=s.schedule, final=s.final_fraction,
        )  # fmt: skip

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in (*self._parameters.values(), *self._masters.values()):
            parameter.grad = None

    def gradient_norm(self) -> float:
        """Return the global 2-norm of the gradients, before clipping."""
        gradients = [p.grad.float() for p in self._parameters.values() if p.grad is not None]
        return float(nn.utils.get_total_norm(gradients)) if gradients else 0.0

    def step(self, norm: float) -> None:
        """Clip by the global `norm`, step the masters, and round them back into the parameters."""
        bound = self.settings.clip_norm
        scale = min(1.0, bound / norm) if bound > 0 and norm > 0 else 1.0
        for name, parameter in self._parameters.items():
            master = self._masters[name]
            if parameter.grad is not None:
                master.grad = parameter.grad.to(master.dtype).mul_(scale)
        for group in self._adamw.param_groups:
            group["lr"] = self.learning_rate
        self._adamw.step()
        self.num_steps += 1
        self._round_back()

    def take_over(self) -> None:
        """Read the masters from the parameters again, after weights were loaded into them."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                self._masters[name].copy_(parameter)

    def _round_back(self) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                if self._masters[name] is not parameter:
                    parameter.copy_(self._masters[name])

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """Return copies of masters and moments (`master.NAME`, `mean.NAME`, `square.NAME`) and counts."""
        tensors = {f"master.{name}": master.detach().clone() for name, master in self._masters.items()}
        steps: dict[str, JSON] = {}
        for name, master in self._masters.items():
            state = self._adamw.state.get(master)
            if state:
                tensors[f"mean.{name}"] = state["exp_avg"].clone()
                tensors[f"square.{name}"] = state["exp_avg_sq"].clone()
                steps[name] = float(state["step"])
        return tensors, {"num_steps": self.num_steps, "parameter_steps": dict(steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, JSON]) -> None:
        """Continue exactly where `state_dict` was taken; names must be those of the parameters."""
        wanted = {f"master.{name}" for name in self._masters}
        if odd := wanted ^ {name for name in tensors if name.startswith("master.")}:
            raise ConfigError(
                f"optimizer state does not fit the model: {sorted(odd)[:3]} … differ", key="model"
            )
        num_steps, steps = numbers["num_steps"], numbers["parameter_steps"]
        assert isinstance(num_steps, int)
        assert isinstance(steps, dict)
        self.num_steps = num_steps
        with torch.no_grad():
            for name, master in self._masters.items():
                master.copy_(tensors[f"master.{name}"])
                self._adamw.state.pop(master, None)
                if name in steps:
                    self._adamw.state[master] = {
                        "step": torch.tensor(float(steps[name]), device=_step_device(master, self._adamw)),
                        "exp_avg": tensors[f"mean.{name}"].to(master.device).clone(),
                        "exp_avg_sq": tensors[f"square.{name}"].to(master.device).clone(),
                    }
        self._round_back()


def _master(parameter: nn.Parameter) -> nn.Parameter:
    if parameter.dtype in (torch.float32, torch.float64):
        return parameter
    return nn.Parameter(parameter.detach().float().clone())


def _step_device(master: Tensor, adamw: torch.optim.AdamW) -> torch.device:
    """Return where AdamW keeps its step count: with the parameter if fused, else on the CPU."""
    return master.device if adamw.defaults["fused"] else torch.device("cpu")
