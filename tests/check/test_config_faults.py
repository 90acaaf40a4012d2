"""The config's checks notice an engine that keeps old weights and an export without the adapter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import torch

from posttrain import assembly
from posttrain.check import export
from posttrain.check.config import learner_outcomes, requests
from posttrain.contracts.learner import shaken
from posttrain.models.adapter import save_adapter
from posttrain.models.load import Model, load
from posttrain.models.lora import Lora, load_owned

TOKENS = torch.arange(12) * 7 % 250


class Frozen:
    """Samples from the first weights that were loaded, with the newest version's number."""

    def __init__(self, engine) -> None:
        self._engine, self._loaded, self.version = engine, False, 0

    async def generate(self, wave):
        return await self._engine.generate(wave)

    async def load(self, weights, version):
        self.version = version
        if not self._loaded:
            await self._engine.load(weights, version)
            self._loaded = True


def outcomes(folder: Path, wrap) -> dict[str, str]:
    async def work():
        config = assembly.read(folder / "run.toml")
        async with assembly.opened(config, str(folder / "run.toml")) as parts:
            assert len({len(request.prompt) for request in requests(parts)}) >= 1
            assert len({request.sampling.max_tokens for request in requests(parts)}) > 1
            return await learner_outcomes(parts, wrap(parts.engine))

    return {outcome.rule: outcome.status for outcome in asyncio.run(work())}


def test_an_engine_that_keeps_old_weights_breaks_that_rule_alone(folder: Path) -> None:
    found = outcomes(folder, Frozen)
    assert [rule for rule, status in found.items() if status != "holds"] == [
        "after a load, log-probabilities are the new weights'"
    ]


def model(lora: Lora | None = Lora(rank=4, alpha=8.0)):
    made = load(Model("tiny", dtype="float32", device="cpu", lora=lora), seed=0)
    load_owned(made.module, shaken(made, seed=1))
    return made


def test_an_export_whose_adapter_is_not_applied_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lora, made = Lora(rank=4, alpha=8.0), model()

    def emptied(module, lora, folder, source):
        load_owned(module, {**shaken(made, seed=1, share=0.0), **_without_b(made)})
        save_adapter(module, lora, folder, source)

    sound = export.export_holds_what_was_trained(made, lora, TOKENS, tmp_path / "sound")
    assert [outcome.status for outcome in sound] == ["holds", "holds"]
    monkeypatch.setattr(export, "save_adapter", emptied)
    broken = export.export_holds_what_was_trained(made, lora, TOKENS, tmp_path / "broken")
    assert [outcome.status for outcome in broken] == ["broken", "broken"]


def _without_b(made) -> dict[str, torch.Tensor]:
    weights = shaken(made, seed=1, share=0.0)
    return {name: torch.zeros_like(w) for name, w in weights.items() if name.endswith("lora_B")}


def test_an_export_with_another_scale_is_found(tmp_path: Path) -> None:
    wrong = Lora(rank=4, alpha=4.0)
    (gives, _) = export.export_holds_what_was_trained(model(), wrong, TOKENS, tmp_path)
    assert gives.status == "broken"


def test_a_merged_export_is_read_back(tmp_path: Path) -> None:
    made = model(lora=None)
    found = export.export_holds_what_was_trained(made, None, TOKENS, tmp_path)
    assert [outcome.status for outcome in found] == ["holds", "holds"]


def test_without_the_memory_for_a_second_copy_the_export_is_skipped_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "available_bytes", lambda: 1_000)
    (skipped,) = export.export_holds_what_was_trained(model(), Lora(4, 8.0), TOKENS, tmp_path)
    assert skipped.status == "skipped"
    assert "GiB" in skipped.evidence
