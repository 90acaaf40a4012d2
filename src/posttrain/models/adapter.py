"""Adapters and merged models on disk, in the layouts that PEFT and transformers read."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from posttrain.errors import ConfigError
from posttrain.models.folder import quiet
from posttrain.models.language_model import LanguageModel
from posttrain.models.lineage import fingerprint, warn_of_another_name
from posttrain.models.lora import Lora, LoraLinear, load_owned, owned

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE = "posttrain_base"
"""Under this name the weights file says which base the adapter was trained on."""
_PREFIX = "base_model.model."
_HARMLESS = frozenset({
    "auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "lora_alpha", "lora_dropout", "megatron_core", "peft_version", "qalora_group_size", "r", "revision",
    "target_modules", "task_type",
})  # fmt: skip
"""PEFT's settings that leave the arithmetic of a loaded plain LoRA as it is, or that are compared apart."""


def save_adapter(module: nn.Module, lora: Lora, folder: Path, source: str) -> None:
    """Write the adapter into `folder` (made if missing) so that plain PEFT loads it over `source`."""
    from peft import LoraConfig

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {_peft_name(name): p.detach().float().cpu().contiguous() for name, p in owned(module)}
    # One key only: safetensors writes several in an order that changes from call to call.
    save_file(tensors, folder / WEIGHTS, metadata={BASE: fingerprint(module)})
    alpha: Any = int(lora.alpha) if float(lora.alpha).is_integer() else lora.alpha
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=alpha,
        target_modules=list(_targets(tensors)),
        task_type="CAUSAL_LM",
        base_model_name_or_path=source,
        inference_mode=True,
    )
    config.save_pretrained(str(folder))
    _sort_targets(folder / CONFIG)


def load_adapter(module: nn.Module, folder: Path) -> None:
    """Copy a PEFT adapter into the adapter that `module` has.

    Raises ConfigError naming the folder and what differs: the base that our own exports were trained on,
    rank, alpha, the adapted layers, or a kind of LoRA (DoRA, rsLoRA, biases, …) that is not supported.
    """
    found, tensors = read_lora(folder), _tensors(folder)
    _check_base(module, folder)
    layers = [layer for layer in module.modules() if isinstance(layer, LoraLinear)]
    assert layers, "the module has no adapter to load into"
    rank, alpha = layers[0].lora_A.shape[0], layers[0].scale * layers[0].lora_A.shape[0]
    wanted = {_peft_name(name) for name, _ in owned(module)}
    if found.rank != rank:
        raise _differs(folder, f"rank is {found.rank}", f"{rank}", "rank")
    if not abs(found.alpha - alpha) <= 1e-6 * abs(alpha):
        raise _differs(folder, f"alpha is {found.alpha:g}", f"{alpha:g}", "alpha")
    if odd := sorted(wanted ^ tensors.keys()):
        side = "lacks" if odd[0] in wanted else "also has"
        there = ", ".join(found.targets)
        raise _differs(folder, f"adapter (targets {there}) {side} {odd[0]}", "the same layers", "targets")
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
            raise ConfigError(
                f"{str(folder)!r}: {name} holds {tensor.dtype} values that are not all finite floats",
                key="model.adapter",
                hint="The file is damaged or its training diverged; use another adapter.",
            )
    try:
        load_owned(module, {_own_name(name): tensor.float() for name, tensor in tensors.items()})
    except ConfigError as error:
        raise ConfigError(
            f"{str(folder)!r} does not fit the model: {error}",
            key="model.adapter",
            hint="Use the base that the adapter was trained on.",
        ) from error


def read_lora(folder: Path) -> Lora:
    """Return the settings of a PEFT adapter; targets are the layer names that it holds weights for."""
    config = _config(folder)
    return Lora(rank=config.r, alpha=float(config.lora_alpha), targets=_targets(_tensors(folder)))


def save_merged(language_model: LanguageModel, folder: Path) -> None:
    """Write the model with its adapter added to the base (in the base's dtype), and its tokenizer.

    W ← W + (alpha / rank) · B A, computed in float32.
    """
    module = language_model.module
    shared = {id(t): t for t in (*module.parameters(), *module.buffers())}
    merged = copy.deepcopy(module, dict(shared))
    for name, layer in list(merged.named_modules()):
        if isinstance(layer, LoraLinear):
            parent, _, leaf = name.rpartition(".")
            setattr(merged.get_submodule(parent), leaf, _merge(layer))
    with quiet():
        merged.save_pretrained(folder)
        language_model.tokenizer.save_pretrained(folder)


@torch.no_grad()
def _merge(layer: LoraLinear) -> nn.Linear:
    weight = layer.base.weight
    update = layer.scale * (layer.lora_B.float() @ layer.lora_A.float())
    layer.base.weight = nn.Parameter((weight.float() + update).to(weight.dtype), requires_grad=False)
    return layer.base


def _check_base(module: nn.Module, folder: Path) -> None:
    """Raise ConfigError if the adapter was trained on other weights than the module's, as far as it says."""
    named = _config(folder).base_model_name_or_path
    with safe_open(folder / WEIGHTS, "pt") as file:
        base = (file.metadata() or {}).get(BASE)
    if base is None:
        warn_of_another_name(module, named, str(folder))
    elif base != fingerprint(module):
        raise ConfigError(
            f"{str(folder)!r} was trained on another base ({named!r}), whose weights are not this model's",
            key="model.adapter",
            hint="Set model.source to that base, or choose another adapter.",
        )


def _config(folder: Path) -> Any:
    """Return PEFT's LoraConfig of a folder, of a kind and with numbers that are supported."""
    from peft import LoraConfig, PeftConfig

    if not (folder / CONFIG).is_file() or not (folder / WEIGHTS).is_file():
        raise ConfigError(
            f"{str(folder)!r} lacks {CONFIG} or {WEIGHTS}",
            key="model.adapter",
            hint="Give a folder that PEFT or a run's export wrote.",
        )
    try:
        config = PeftConfig.from_pretrained(str(folder))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{folder / CONFIG} cannot be read ({error})", key="model.adapter") from error
    if not isinstance(config, LoraConfig) or (unfit := _unsupported(config)):
        kind = unfit if isinstance(config, LoraConfig) else str(config.peft_type)
        raise ConfigError(
            f"{folder / CONFIG}: {kind} is not supported",
            key="model.adapter",
            hint="Use a plain LoRA adapter, or merge this one into its base with PEFT and load that folder.",
        )
    for key, value, kinds in (("r", config.r, (int,)), ("lora_alpha", config.lora_alpha, (int, float))):
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
            raise ConfigError(
                f"{folder / CONFIG}: {key} is {value!r}, expected a positive number",
                key="model.adapter",
                hint="Write it as PEFT does, or export the adapter again.",
            )
    return config


def _unsupported(config: Any) -> str:
    """Name what changes LoRA's arithmetic in this PEFT configuration, or ''."""
    plain, found = type(config)().to_dict(), config.to_dict()
    odd = sorted(key for key, value in found.items() if key not in _HARMLESS and value != plain[key])
    if config.init_lora_weights not in (True, False, "gaussian", "orthogonal"):
        odd.append("init_lora_weights")  # the others change the base weights as well
    return f"{odd[0]} = {found[odd[0]]!r}" if odd else ""


def _tensors(folder: Path) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise ConfigError(
            f"{folder / WEIGHTS} cannot be read ({error})",
            key="model.adapter",
            hint="Copy or export it again.",
        ) from error
    return tensors


def _sort_targets(path: Path) -> None:
    """Make the file a function of the settings: PEFT writes the targets in a set's order."""
    settings = json.loads(path.read_text())
    settings["target_modules"].sort()
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _targets(tensors: dict[str, Tensor]) -> tuple[str, ...]:
    return tuple(sorted({name.split(".lora_")[0].rpartition(".")[2] for name in tensors}))


def _peft_name(name: str) -> str:
    return f"{_PREFIX}{name}.weight"


def _own_name(name: str) -> str:
    return name.removeprefix(_PREFIX).removesuffix(".weight")


def _differs(folder: Path, found: str, wanted: str, setting: str) -> ConfigError:
    return ConfigError(
        f"the {found} in {str(folder)!r}, the model has {wanted}",
        key="model.adapter",
        hint=f"Set model.lora.{setting} to the adapter's; `eval` compares adapters of one shape.",
    )
