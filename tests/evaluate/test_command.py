"""The eval command on the tiny model: tables, JSON, comparison and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.train.program import sft_command

CONFIG = """
[model]
source = "tiny"
dtype = "float32"
lora = { rank = 4, alpha = 8.0 }
[sampling]
max_tokens = 3
[sft]
steps = 25
demonstrations = 8
optimizer = { learning_rate = 2e-2 }
[evaluation]
tasks = 8
attempts = 4
[[domains]]
use = "generated:count_bits"
min_n = 1
max_n = 127
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a config and the adapter that it trained."""
    folder = tmp_path_factory.mktemp("eval")
    (folder / "config.toml").write_text(CONFIG)
    assert sft_command(folder / "config.toml", [], folder / "warm") == 0
    return folder


def run(*arguments: str) -> int:
    return guarded(lambda: app(["eval", *arguments]))


def test_a_policy_is_measured_beside_another_and_the_best_constant(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter, out = str(trained / "warm" / "adapter"), trained / "report" / "eval.json"
    assert (
        run(str(trained / "config.toml"), "--adapter", adapter, "--against", "base", "--out", str(out)) == 0
    )
    shown = capsys.readouterr().out
    assert "pass@1" in shown
    assert "base" in shown
    document = json.loads(out.read_text())
    (row,) = document["domains"]
    assert row["pass_1"]["num_tasks"] == 8
    assert row["k"] == 4
    assert 0.0 <= row["pass_hat_k"] <= row["pass_1"]["mean"] <= row["pass_k"] <= 1.0
    assert 0.0 < row["constant"] < 0.9, "one bit count is the commonest, but not the rule"
    assert document["comparison"][0]["other"] > document["comparison"][0]["base"]


def test_json_goes_to_standard_output_alone(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(trained / "config.toml"), "--json", "evaluation.tasks=3") == 0
    assert json.loads(capsys.readouterr().out)["label"] == "tiny"


def test_evaluation_may_cut_the_support_that_training_may_not(trained: Path) -> None:
    assert (
        run(str(trained / "config.toml"), "evaluation.tasks=2", "sampling.top_p=0.9", "sampling.top_k=5") == 0
    )


def test_what_cannot_be_compared_is_refused(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(trained / "config.toml")
    assert run(config, "--adapter", str(trained / "nowhere")) == 2
    assert "nowhere" in capsys.readouterr().err
    assert run(config, "--against", "base", "evaluation.tasks=2") == 2
    assert "--adapter" in capsys.readouterr().err
