"""Where and in which number format a model computes."""

from __future__ import annotations

import time
from typing import Literal

import torch
from torch import Tensor

from posttrain.errors import ConfigError

DtypeName = Literal["auto", "float32", "bfloat16"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]

_SIZE = 512  # 0.27 GFLOP: 2 ms where hardware helps, 30 ms on a slow core


def choose_device(device: DeviceName) -> torch.device:
    """Return the device; `auto` takes CUDA, then Apple's MPS, then the CPU."""
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return torch.device(next(name for name, there in present.items() if there))
    if not present[device]:
        here = ", ".join(name for name, there in present.items() if there)
        raise ConfigError(
            f"{device!r} is not available here", key="model.device", hint=f"Choose auto or one of: {here}."
        )
    return torch.device(device)


def choose(dtype: DtypeName, device: torch.device) -> torch.dtype:
    """Return the number format of the base weights; `auto` takes bfloat16 where that is faster.

    On CUDA this means hardware support, on a CPU a measurement of well under 0.3 s (formats differ
    there by a factor of two or more either way, so noise does not flip it); float32 elsewhere.
    """
    if dtype != "auto":
        return {"float32": torch.float32, "bfloat16": torch.bfloat16}[dtype]
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        fast = device.type == "cpu" and _seconds(torch.bfloat16) < _seconds(torch.float32)
    return torch.bfloat16 if fast else torch.float32


def _seconds(dtype: torch.dtype) -> float:
    """Return the better time of two matrix products on the CPU, after one to warm up."""
    matrix = torch.full((_SIZE, _SIZE), 0.5, dtype=dtype)
    _timed(matrix)
    return min(_timed(matrix), _timed(matrix))


def _timed(matrix: Tensor) -> float:
    start = time.perf_counter()
    torch.mm(matrix, matrix)
    return time.perf_counter() - start
