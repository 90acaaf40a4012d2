import pytest
import torch

from posttrain.errors import ConfigError
from posttrain.models import dtype as dtypes

CPU = torch.device("cpu")


def test_a_named_format_is_taken_as_said() -> None:
    assert dtypes.choose("float32", CPU) is torch.float32
    assert dtypes.choose("bfloat16", CPU) is torch.bfloat16


@pytest.mark.parametrize(("bfloat16_seconds", "expected"), [(0.001, torch.bfloat16), (0.1, torch.float32)])
def test_auto_takes_the_format_that_the_probe_finds_faster(
    monkeypatch: pytest.MonkeyPatch, bfloat16_seconds: float, expected: torch.dtype
) -> None:
    seconds = {torch.bfloat16: bfloat16_seconds, torch.float32: 0.01}
    monkeypatch.setattr(dtypes, "_seconds", seconds.__getitem__)
    assert dtypes.choose("auto", CPU) is expected


def test_the_real_probe_gives_a_format_and_leaves_the_global_generator_alone() -> None:
    state = torch.random.get_rng_state()
    assert dtypes.choose("auto", CPU) in (torch.float32, torch.bfloat16)
    assert torch.equal(state, torch.random.get_rng_state())


def test_auto_on_other_devices_without_support_is_float32() -> None:
    assert dtypes.choose("auto", torch.device("mps")) is torch.float32


def test_a_missing_device_is_an_error_that_lists_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert dtypes.choose_device("auto") == CPU
    with pytest.raises(ConfigError, match=r"model.device: 'cuda' is not available here.*one of: cpu"):
        dtypes.choose_device("cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_auto_takes_cuda_and_bfloat16_where_hardware_supports_it() -> None:
    device = dtypes.choose_device("auto")
    assert device.type == "cuda"
    supported = torch.cuda.get_device_capability()[0] >= 8
    assert dtypes.choose("auto", device) is (torch.bfloat16 if supported else torch.float32)
