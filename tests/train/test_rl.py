"""The loop on real parts: it learns, it is reproducible, and it goes on where it stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import InputError, RunFailed, RunFolderError
from posttrain.records.groups import read_groups
from posttrain.rollouts import draw
from posttrain.train.program import train_command

INTERRUPTED = 130


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def untimed(path: Path) -> list[dict[str, Any]]:
    """Return the rows without what differs between two runs of the same thing: clocks and memory."""
    clocks = ("seconds", "tokens_per_second", "verify_share", "memory")
    return [{k: v for k, v in row.items() if not k.startswith(clocks)} for row in rows(path)]


def weights(run: Path) -> bytes:
    return (run / "adapter" / "adapter_model.safetensors").read_bytes()


def train(config: Path, run: Path, *overrides: str) -> int:
    return train_command(config, overrides, run, None)


def test_a_run_leaves_its_records_and_its_ledger_reconciles(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(config, run) == 0
    steps = rows(run / "metrics.jsonl")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert all(row["num_attempts"] == 12 for row in steps)
    ledger = rows(run / "ledger.jsonl")[-1]
    settled = ledger["domains"]["letters"]["settled"]
    assert ledger["started"] == 72 == sum(n for fates in settled.values() for n in fates.values())
    groups = list(read_groups(run / "groups" / "step-000003.jsonl"))
    assert [group.sequence for group in groups] == [4, 5]
    assert {t.turns[1].version for group in groups for t in group.trajectories} == {2}


def test_one_seed_gives_identical_weights_and_records_and_another_does_not(
    config: Path, tmp_path: Path
) -> None:
    for name, seed in [("a", 0), ("b", 0), ("c", 1)]:
        train(config, tmp_path / name, f"run.seed={seed}")
    assert weights(tmp_path / "a") == weights(tmp_path / "b") != weights(tmp_path / "c")
    for file in ("metrics.jsonl", "domains.jsonl"):
        assert untimed(tmp_path / "a" / file) == untimed(tmp_path / "b" / file)


def test_sampler_and_trainer_agree_on_every_sampled_token(config: Path, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    mismatches = [
        row["mismatch_max"] for row in rows(tmp_path / "run" / "metrics.jsonl") if row["skipped"] is None
    ]
    assert mismatches
    assert max(mismatches) < 1e-4


def start(config: Path, run: Path, *overrides: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "posttrain.cli", "train", str(config), "--run", str(run), *overrides]
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_step(run: Path, step: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (run / "checkpoints" / f"step-{step:06d}.json").exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of step {step} within two minutes")


def test_a_run_killed_at_any_moment_ends_with_the_weights_of_one_that_was_not(
    config: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    steps = "run.steps=60"
    train(config, whole, steps)
    process = start(config, killed, steps)
    wait_for_step(killed, 8)
    process.kill()
    process.wait()
    assert len(rows(killed / "metrics.jsonl")) < 60, "it was killed too late to prove anything"
    assert train_command(None, [], None, killed) == 0
    assert weights(killed) == weights(whole)
    for file in ("metrics.jsonl", "domains.jsonl", "ledger.jsonl"):
        assert untimed(killed / file) == untimed(whole / file)


def test_a_run_killed_before_its_first_checkpoint_begins_again_and_ends_the_same(
    config: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    changes = ["run.steps=40", "run.checkpoint_every=40"]
    train(config, whole, *changes)
    process = start(config, killed, *changes)
    deadline = time.monotonic() + 120
    while not (killed / "groups" / "step-000003.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not list((killed / "checkpoints").glob("step-*.json")), "it was killed too late to prove anything"
    assert train_command(None, [], None, killed) == 0
    assert weights(killed) == weights(whole)
    assert untimed(killed / "ledger.jsonl") == untimed(whole / "ledger.jsonl")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_after_the_step_and_the_run_goes_on_from_there(
    config: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    process = start(config, run, "run.steps=100000", "run.checkpoint_every=2")
    wait_for_step(run, 2)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert f"posttrain train --resume {run}" in said
    done = len(rows(run / "metrics.jsonl"))
    assert train_command(None, [f"run.steps={done + 2}"], None, run) == 0
    assert [row["step"] for row in rows(run / "metrics.jsonl")] == list(range(1, done + 3))


def test_a_resumed_run_refuses_another_identity_and_names_it(config: Path, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    with pytest.raises(RunFolderError, match=r"algorithm.*absent|algorithm.*clip_high"):
        train_command(None, ["algorithm.clip_high=0.5"], None, tmp_path / "run")


def test_a_run_whose_last_steps_had_no_signal_is_resumed_to_its_end(config: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert train(config, run) == 0
    config.write_text(config.read_text().replace(":letters", ":hopeless"))
    assert train_command(config, ["run.steps=8"], None, run, allow_changed=True) == 0
    assert (run / "adapter" / "adapter_model.safetensors").exists()


def test_a_run_is_not_resumed_to_a_step_that_it_has_passed(config: Path, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    with pytest.raises(InputError, match=r"already at step 6, past run\.steps = 3"):
        train_command(None, ["run.steps=3"], None, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["run"]["steps"] == 6


def test_a_run_whose_checkpoints_are_gone_does_not_begin_again_unasked(config: Path, tmp_path: Path) -> None:
    train(config, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(RunFailed, match="6 steps are recorded but the checkpoints are gone"):
        train_command(None, ["run.steps=8"], None, tmp_path / "run")
    assert len(rows(tmp_path / "run" / "metrics.jsonl")) == 6


def test_a_run_without_any_verdict_says_why_with_the_verifiers_own_words(
    config: Path, tmp_path: Path
) -> None:
    config.write_text(config.read_text().replace(":letters", ":unjudged"))
    with pytest.raises(RunFailed, match=r"72 of 72 attempts got no verdict.*the gold file is missing"):
        train(config, tmp_path / "run")
    assert "the gold file is missing" in (tmp_path / "run" / "events.jsonl").read_text()


def test_a_run_without_any_signal_fails_in_plain_words_with_its_records_kept(
    config: Path, tmp_path: Path
) -> None:
    text = config.read_text().replace(":letters", ":hopeless")
    config.write_text(text)
    with pytest.raises(RunFailed, match="none of 6 steps carried a training signal"):
        train(config, tmp_path / "run")
    assert all(
        "no group carried a signal" in row["skipped"] for row in rows(tmp_path / "run" / "metrics.jsonl")
    )


def test_a_domain_that_never_gives_its_next_task_fails_the_run_and_keeps_what_was_learnt(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw, "SECONDS", 0.5)
    config.write_text(config.read_text().replace(":letters", ":stuck"))
    with pytest.raises(RunFailed, match="making 2 tasks: no result within"):
        train(config, tmp_path / "run")
    assert len(rows(tmp_path / "run" / "metrics.jsonl")) == 3
    assert (tmp_path / "run" / "checkpoints" / "step-000002.json").exists()


@pytest.mark.parametrize("use", ["grpo", "dr_grpo", "rloo"])
def test_several_updates_a_batch_and_a_reference_keep_the_run_sound(
    config: Path, tmp_path: Path, use: str
) -> None:
    changes = [f"algorithm.use={use}", "algorithm.kl=0.05", "learner.updates_per_batch=2", "run.steps=2"]
    assert train(config, tmp_path / "run", *changes) == 0
    trained = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["skipped"] is None]
    assert all(abs(row["loss"]) < 10 and 0 < row["grad_norm"] < 1e3 for row in trained)
