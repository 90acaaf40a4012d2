"""The demo's table and claims by hand; the demo itself, on the real model, under `slow`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posttrain.demo import program
from posttrain.demo.table import demo_rows, holds
from posttrain.measures.report import DomainScores, Scores, text_table


def scores(label: str, constants: dict[str, float] | None = None, **solved: list[int]) -> Scores:
    """Return scores in which task i of a domain was solved in solved[i] of 4 attempts."""
    domains = {
        name: DomainScores({f"{name}{i}": (1.0,) * n + (0.0,) * (4 - n) for i, n in enumerate(counts)})
        for name, counts in solved.items()
    }
    return Scores(label, domains, constants or {})


def test_the_table_shows_gains_beside_the_best_constant_answer() -> None:
    base = scores("base", a=[0] * 5, b=[0] * 5, c=[1] * 5)
    warm = scores("warm-up", a=[1, 0] * 10, b=[1, 0] * 10, c=[2] * 20)
    final = scores("RL", {"a": 0.3, "b": 0.9, "c": 0.1}, a=[3, 2] * 10, b=[3, 2] * 10, c=[2] * 20)
    rows = demo_rows(base, warm, final)
    assert [row.verdict for row in rows] == ["gain", "gain, below constant", "", ""]
    assert rows[0].gain.mean == pytest.approx(0.5)
    assert rows[-1].gain.mean == pytest.approx((0.5 + 0.5 + 0.0) / 3)
    assert rows[-1].base == pytest.approx(0.25 / 3)
    assert "+0.50" in text_table(rows)
    assert list(holds(rows).values()) == [True, True, False, True]


def test_a_significant_loss_is_not_passed_over() -> None:
    base = scores("base", a=[0])
    rows = demo_rows(base, scores("warm-up", a=[4, 3] * 10), scores("RL", {"a": 0.0}, a=[1, 0] * 10))
    assert rows[0].verdict == "loss"
    assert list(holds(rows).values()) == [False, False, False, False]


def test_the_demo_runs_end_to_end_on_the_tiny_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["model.source=tiny", "model.lora.rank=4", "sft.steps=1", "sft.demonstrations=8", "run.steps=3"]
    # Paying for nothing but agreement would need no signal; SFT as the algorithm always has one.
    small += ["evaluation.tasks=4", "evaluation.attempts=2", "algorithm={use='sft'}", "run.attempts=2"]
    assert program.run(small, tmp_path / "demo") == 0
    report = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert len(report["rows"]) >= 9
    assert set(report["attempts"]) == {"base", "warm-up", "RL"}
    assert "best constant" in capsys.readouterr().out
    assert (tmp_path / "demo" / "rl" / "adapter" / "adapter_model.safetensors").exists()


@pytest.mark.slow
def test_the_real_model_gains_as_the_demo_claims(tmp_path: Path) -> None:
    assert program.run([], tmp_path / "demo") == 0
    report = json.loads((tmp_path / "demo" / "report.json").read_text())
    assert all(report["claims"].values()), report["claims"]
    assert report["peak_memory_bytes"] < 6 * 2**30
