"""Which base an adapter was trained on: a fingerprint of frozen weights, kept with the adapter.

Apart from the adapter's layout, since names prove nothing: folders move, and one model has many names.
"""

from __future__ import annotations

import hashlib
import warnings

import torch
from torch import nn

NUM_VALUES = 256
"""How many values of each weight are looked at."""


def fingerprint(module: nn.Module) -> str:
    """Return a hash of the frozen weights that does not depend on the dtype they were loaded in."""
    digest = hashlib.sha256()
    for name, parameter in sorted(module.named_parameters()):
        if name.rpartition(".")[2] in ("lora_A", "lora_B"):
            continue
        values = parameter.detach().flatten()[:NUM_VALUES].to(torch.bfloat16).cpu()
        digest.update(f"{name.replace('.base.', '.')} {tuple(parameter.shape)}".encode())
        digest.update(values.view(torch.int16).numpy().tobytes())
    return digest.hexdigest()


def warn_of_another_name(module: nn.Module, named: str | None, folder: str) -> None:
    """Warn where an adapter without a fingerprint names another base than the module's."""
    own = str(getattr(getattr(module, "config", None), "_name_or_path", "") or "")
    ours, theirs = (text.rstrip("/").rpartition("/")[2].casefold() for text in (own, named or ""))
    if ours and theirs and not ours.startswith(theirs) and not theirs.startswith(ours):
        warnings.warn(
            f"{folder}: made for the base {named!r}, the model is {own!r}; "
            "if these are not the same weights, the adapter means nothing here",
            RuntimeWarning,
            stacklevel=2,
        )
