import sys
from pathlib import Path

import pytest
import torch

from posttrain.bench import vllm
from posttrain.errors import ConfigError, RunFailed


def start(python: Path) -> None:
    with vllm.running(python, "model", [[1, 2]], 2, 4, torch.float32):
        raise AssertionError("nothing can be sampled with it")


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--vllm: .*python-of-vllm' is no program"):
        start(tmp_path / "python-of-vllm")


def test_an_interpreter_without_vllm_fails_with_what_it_printed() -> None:
    with pytest.raises(RunFailed, match="No module named 'vllm'"):
        start(Path(sys.executable))
