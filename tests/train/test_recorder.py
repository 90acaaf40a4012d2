"""The ledger is checked against what was started, not against what came back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from posttrain.errors import RunFailed
from posttrain.rollouts.collect import Collector, Harvest
from posttrain.train.program import train_command


def test_an_attempt_that_is_started_and_never_comes_back_fails_the_run(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = Collector.collect

    async def loses_a_group(self: Collector, draws: list[object]) -> Harvest:
        harvest = await collect(self, draws)  # type: ignore[arg-type]
        return replace(harvest, groups=harvest.groups[:-1])

    monkeypatch.setattr(Collector, "collect", loses_a_group)
    with pytest.raises(RunFailed, match="ledger: 6 attempts are pending but 0 are in flight"):
        train_command(config, [], tmp_path / "run", None)
