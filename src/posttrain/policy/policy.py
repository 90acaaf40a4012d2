"""The learner: log-probabilities, and the only gradient step in the house."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from posttrain.batch import Batch
from posttrain.errors import ConfigError
from posttrain.models.forward import head_weight, hidden_states
from posttrain.models.language_model import LanguageModel
from posttrain.models.lora import load_owned, owned, twin
from posttrain.policy.head import scored_logprobs
from posttrain.policy.layout import Kind, lay_out
from posttrain.policy.microbatch import split
from posttrain.policy.optimizer import AdamW, Optimizer
from posttrain.policy.stats import Drift, Pass, UpdateStats, num_silent
from posttrain.protocols import Algorithm, Denominator, Need, Outputs
from posttrain.types import JSON


@dataclass(frozen=True, slots=True)
class Learner:
    """Settings: `token_budget` bounds a micro-batch's flat tokens; `checkpointing` trades time for memory.

    On a CPU matrix products are at their full speed from a few hundred tokens, and what is more only takes
    memory; a GPU wants many thousands. The result does not depend on it.
    `layout = "full"` gives each row its own prompt: slower, the same gradients.
    """

    token_budget: int = 1024
    layout: Kind = "shared"
    checkpointing: bool = False
    updates_per_batch: int = 1


class Policy:
    """A model that learns: it owns the trainable weights, the optimizer and the reference's snapshot."""

    def __init__(self, model: LanguageModel, learner: Learner, optimizer: AdamW, total_steps: int) -> None:
        self.model = model
        self.learner = learner
        self.optimizer = Optimizer(optimizer, owned(model.module), total_steps * learner.updates_per_batch)
        self._reference: PreTrainedModel | None = None
        model.module.eval()
        if learner.checkpointing:
            _checkpoint_layers(model.module)

    def logprobs(self, batch: Batch) -> Tensor:
        """Return the current log-probabilities [row, time] on the CPU, 0 outside the mask; no gradients."""
        return self._logprobs(self.model.module, batch)

    def annotate(self, batch: Batch, needs: frozenset[Need]) -> Batch:
        """Return the batch with what `needs` names, and an anchor if it will be stepped on repeatedly."""
        if "reference" in needs:
            self.snapshot_reference()
            assert self._reference is not None
            batch = replace(batch, reference_logprobs=self._logprobs(self._reference, batch))
        if "anchor" in needs or self.learner.updates_per_batch > 1:
            batch = replace(batch, anchor_logprobs=self.logprobs(batch))
        return batch

    def snapshot_reference(self) -> None:
        """Keep a copy of the weights as they are at step 0; later calls change nothing."""
        if self._reference is not None:
            return
        if self.optimizer.num_steps > 0:
            raise ConfigError(
                f"the reference is the policy of step 0, but {self.optimizer.num_steps} steps are done",
                key="algorithm.kl",
                hint="Start a new run from these weights, or set kl = 0.",
            )
        self._reference = _copy(self.model.module)

    def update(self, batch: Batch, algorithm: Algorithm) -> UpdateStats:
        """Step `updates_per_batch` times on the whole batch, whose advantages are set.

        Each loss component is divided by one count over the whole batch, so the result does not depend on
        the micro-batches. A loss or gradient that is not finite makes no step; `skipped` then says so.
        """
        started = time.perf_counter()
        rate = self.optimizer.learning_rate
        parts = [batch.rows(rows) for rows in split(batch, self.learner.token_budget, self.learner.layout)]
        counts = _counts(batch)
        before = self.optimizer.num_steps
        passes = []
        for _ in range(self.learner.updates_per_batch):
            rate = self.optimizer.learning_rate
            passes.append(self._step(parts, counts, algorithm))
            if passes[-1].skipped:
                break
        last, tokens = passes[-1], max(1, batch.num_scored)
        return UpdateStats(
            loss=last.loss,
            components=last.components,
            gradient_norm=last.gradient_norm,
            learning_rate=rate,
            entropy=last.drift.surprise / tokens,
            clip_share=last.num_silent / tokens,
            sampler_kl=last.drift.kl / tokens,
            mismatch=passes[0].drift.apart,
            num_tokens=batch.num_scored,
            num_rows=batch.num_rows,
            num_micro_batches=len(parts),
            num_steps=self.optimizer.num_steps - before,
            seconds=time.perf_counter() - started,
            skipped=last.skipped,
        )

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the policy's own weights: its adapters, or all of them without LoRA."""
        return {name: parameter.detach().clone() for name, parameter in owned(self.model.module)}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy weights in; the optimizer goes on from them, its moments unchanged."""
        load_owned(self.model.module, weights)
        self.optimizer.take_over()

    def state_dict(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """Return all that the next step depends on, as tensors and as plain JSON."""
        tensors = {f"weights.{name}": tensor for name, tensor in self.weights().items()}
        state, numbers = self.optimizer.state_dict()
        tensors |= {f"optimizer.{name}": tensor for name, tensor in state.items()}
        if self._reference is not None:
            tensors |= {f"reference.{n}": p.detach().clone() for n, p in owned(self._reference)}
        return tensors, {"optimizer": numbers}

    def load_state_dict(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, JSON]) -> None:
        """Continue exactly where `state_dict` was taken, with the same model and settings."""
        load_owned(self.model.module, _under("weights.", tensors))
        state = numbers["optimizer"]
        assert isinstance(state, dict)
        self.optimizer.load_state_dict(_under("optimizer.", tensors), state)
        reference = _under("reference.", tensors)
        self._reference = _copy(self.model.module) if reference else None
        if self._reference is not None:
            load_owned(self._reference, reference)

    def _logprobs(self, module: PreTrainedModel, batch: Batch) -> Tensor:
        logprobs = torch.zeros(batch.tokens.shape)
        with torch.no_grad():
            for rows in split(batch, self.learner.token_budget, self.learner.layout):
                part = batch.rows(rows)
                width = part.tokens.shape[1]
                logprobs[rows, :width] = self._outputs(module, part, entropy=False).logprobs.float().cpu()
        return logprobs

    def _outputs(self, module: PreTrainedModel, batch: Batch, *, entropy: bool) -> Outputs:
        device = self.model.device
        layout = lay_out(batch, self.learner.layout, device)
        mask = batch.mask.to(device)
        hidden = hidden_states(module, layout.tokens, layout.positions, layout.attend)
        targets = batch.tokens.to(device)[mask]
        temperature = batch.temperature.to(device)[:, None].expand(mask.shape)[mask]
        scored = scored_logprobs(
            hidden[layout.source], head_weight(module), targets, temperature, entropy=entropy
        )
        logprobs, entropies = (None if s is None else _spread(s, mask) for s in scored)
        assert logprobs is not None
        return Outputs(logprobs, entropies)

    def _step(self, parts: list[Batch], counts: Mapping[Denominator, float], algorithm: Algorithm) -> Pass:
        done = Pass()
        self.optimizer.zero_grad()
        for part in parts:
            self._accumulate(part, counts, algorithm, done)
            if not math.isfinite(done.loss):
                done.skipped = f"the loss is {done.loss}"
                break
        else:
            done.gradient_norm = self.optimizer.gradient_norm()
            if math.isfinite(done.gradient_norm):
                self.optimizer.step(done.gradient_norm)
            else:
                done.skipped = f"the gradient norm is {done.gradient_norm}"
        self.optimizer.zero_grad()
        return done

    def _accumulate(
        self, part: Batch, counts: Mapping[Denominator, float], algorithm: Algorithm, done: Pass
    ) -> None:
        with torch.enable_grad():
            outputs = self._outputs(self.model.module, part, entropy="entropy" in algorithm.needs)
            on_device = part.to(self.model.device)
            terms = algorithm.loss(outputs, on_device)
            shares = {name: term.sum / counts[term.denominator] for name, term in terms.items()}
            loss = torch.stack(list(shares.values())).sum()
            if loss.requires_grad and bool(loss.isfinite()):
                done.num_silent += num_silent(terms, outputs.logprobs, on_device)
                loss.backward()  # type: ignore[no-untyped-call]
        for name, share in shares.items():
            done.components[name] = done.components.get(name, 0.0) + float(share.detach())
        done.drift = done.drift + Drift.of(outputs.logprobs, on_device)


def _counts(batch: Batch) -> dict[Denominator, float]:
    return {"tokens": max(1, batch.num_scored), "rows": batch.num_rows, "constant": 1}


def _spread(scored: Tensor, mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape, dtype=scored.dtype, device=scored.device).masked_scatter(mask, scored)


def _copy(module: PreTrainedModel) -> PreTrainedModel:
    copied = twin(module)
    assert isinstance(copied, PreTrainedModel)
    return copied


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


def _checkpoint_layers(module: PreTrainedModel) -> None:
    """Recompute each layer in the backward pass; only the layers are set to train, so no dropout wakes."""
    module.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    for layer in module.modules():
        if isinstance(layer, GradientCheckpointingLayer):
            layer.training = True
