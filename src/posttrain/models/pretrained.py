"""Reading a model and its tokenizer with transformers, with one clear error where that fails."""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub import HfApi
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from posttrain.errors import ConfigError
from posttrain.models.folder import quiet
from posttrain.models.forward import ATTENTION

_HUB_TIMEOUT_SECONDS = 10.0

Pretrained = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def read(where: Path | str, dtype: torch.dtype) -> Pretrained:
    """Return the model (attention handed to `Attend`) and tokenizer of a folder or hub id.

    A hub model that was downloaded before is read without the network. Raises ConfigError.
    """
    if isinstance(where, Path):
        return _read(where, dtype, local=True)
    try:
        with quiet():
            return _pretrained(where, dtype, local=True)
    except (OSError, ValueError, ImportError):
        _check_hub(where)
    return _read(where, dtype, local=False)


def _read(where: Path | str, dtype: torch.dtype, local: bool) -> Pretrained:
    try:
        with quiet():
            return _pretrained(where, dtype, local)
    except (OSError, ValueError, ImportError) as error:
        raise ConfigError(
            f"transformers cannot load {str(where)!r} ({_first_line(error)})",
            key="model.source",
            hint="It wants a causal language model with its tokenizer, as save_pretrained writes them.",
        ) from error


def _pretrained(where: Path | str, dtype: torch.dtype, local: bool) -> Pretrained:
    tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=local, trust_remote_code=False)
    module, report = AutoModelForCausalLM.from_pretrained(
        where,
        dtype=dtype,
        attn_implementation=ATTENTION,
        output_loading_info=True,
        local_files_only=local,
        trust_remote_code=False,
    )
    if missing := sorted(report["missing_keys"]):
        raise ConfigError(
            f"{str(where)!r} lacks {len(missing)} weights, such as {missing[0]}",
            key="model.source",
            hint="They would start random: download or save the model again.",
        )
    return module, tokenizer


def _check_hub(name: str) -> None:
    """Ask the hub for `name` once; transformers by itself would retry an absent network for a minute."""
    try:
        HfApi().model_info(name, timeout=_HUB_TIMEOUT_SECONDS)
    except Exception as error:  # the hub's client raises its HTTP library's errors, of whichever is installed
        raise ConfigError(
            f"{name!r} is no folder, and the model hub does not give it ({_first_line(error)})",
            key="model.source",
            hint="Check the spelling and the network; offline, use a folder, 'smollm2-135m' or 'tiny'.",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
