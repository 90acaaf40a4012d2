"""What a user can get wrong: one clear error that names the key, the value and the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from posttrain.cli import app, guarded
from posttrain.train.program import sft_command, train_command

BAD_INPUT = 2


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command and return what it said; it must have refused."""
    code = guarded(lambda: app(list(arguments), standalone_mode=True))
    said = capsys.readouterr().err
    assert code == BAD_INPUT, said
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("run.step=3", "Did you mean 'steps'"),
        ("algorithm.clip_hihg=0.3", "clip_high"),
        ("algorithm.use=gpro", "grpo"),
        ("run.groups=many", "run.groups"),
        ("run.groups=0", "run.groups"),
        ("run.keep_checkpoints=1", "2 or more"),
        ("sft.demonstrations=0", "sft.demonstrations"),
        ("learner.token_budget=-1", "learner.token_budget"),
        ("deadlines.verify_seconds=0", "deadlines.verify_seconds"),
        ("sampling.temperature=nan", "sampling.temperature"),
        ("sampling.temperature=inf", "sampling.temperature"),
        ("run.attempts=1", "run.attempts"),
        ("run.max_staleness=1", "run.max_staleness"),
        ("sampling.top_p=0.9", "top_p = 1.0"),
        ("sampling.temperature=0", "sampling.temperature"),
        ("model.source=smolm2-135m", "smollm2-135m"),
        ("model.adapter=/nowhere", "/nowhere"),
        ("model.lora.targets=['q_projj']", "q_proj"),
        ("domains.0.use=letters_of_test:empty", "empty has no train task"),
        ("domains.0.use=letters_of_test:long", "prompt of"),
        ("domains.0.use=letters_of_test:leters", "leters"),
        ("domains.0.use=letters_of_test:raising", "raised LookupError: no such table"),
        ("domains.0.use=letters_of_test:leaving", "raised SystemExit"),
        ("domains.0.use=letters_of_test:misnamed", "belongs to domain 'another'"),
        ("domains.0.use=letters_of_test:nothing", "not a posttrain.Task"),
        ("domains.0.use=letters_of_test:promptless", "has no prompt"),
        ("domains.0.use=letters_of_test:running_out", "letters.task('train', 0, 5) raised IndexError"),
        ("domains.0.use=letters_of_test:oddly_sized", "gave '5'"),
        ("domains.0.use=letters_of_test:nameless", "name is ''"),
        ("domains.0.weight=nan", "domains.0.weight"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate"),
        ("optimizer.learning_rate=0", "optimizer.learning_rate"),
        ("optimizer.betas=[1.5, 2]", "optimizer.betas"),
        ("optimizer.clip_norm=-1", "optimizer.clip_norm"),
        ("optimizer.warmup_steps=-5", "optimizer.warmup_steps"),
        ("optimizer.final_fraction=7", "optimizer.final_fraction"),
        ("algorithm.clip_low=-1", "algorithm.clip_low"),
        ("algorithm.kl=inf", "algorithm.kl"),
        ("model.lora.rank=0", "model.lora.rank"),
        ("model.lora.alpha=nan", "model.lora.alpha"),
        ("run.seed=99999999999999999999999", "run.seed"),
        ("run.steps=99999999999999999999999", "run.steps"),
        ("domains.0.use=no_such_module:thing", "no_such_module"),
        ("domains.0.level=1", "0 to 0"),
        ("domains.0.weight=-1", "domains.0.weight"),
        ("domains=[]", "domains"),
        ("no-equals-sign", "key.path=value"),
    ],
)
def test_a_wrong_setting_is_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str, said: str
) -> None:
    assert said in refused(capsys, "train", str(config), "--run", str(tmp_path / "run"), override)
    assert not (tmp_path / "run").exists()


def test_a_missing_or_broken_file_is_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "absent.toml" in refused(capsys, "train", str(tmp_path / "absent.toml"))
    config.write_text("[run\nsteps = 3")
    assert "not valid TOML" in refused(capsys, "train", str(config))
    assert "--resume" in refused(capsys, "train")
    assert "not a run folder" in refused(capsys, "train", "--resume", str(tmp_path))


def test_a_warm_ups_folder_is_not_resumed_as_a_run(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sft_command(config, [], tmp_path / "warm") == 0
    before = (tmp_path / "warm" / "adapter" / "adapter_model.safetensors").read_bytes()
    said = refused(capsys, "train", "--resume", str(tmp_path / "warm"))
    assert "model.adapter=" in said
    assert (tmp_path / "warm" / "adapter" / "adapter_model.safetensors").read_bytes() == before


def test_a_dry_run_of_a_resume_is_refused_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--dry-run" in refused(capsys, "train", "--resume", str(tmp_path), "--dry-run")


def test_a_folder_that_holds_something_is_left_alone(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("precious")
    assert "not empty" in refused(capsys, "train", str(config), "--run", str(taken))
    assert (taken / "thesis.txt").read_text() == "precious"
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, "train", str(config), "--run", str(tmp_path / "file" / "run"))


def test_a_dry_run_prints_a_config_that_can_be_run_and_writes_nothing(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_command(config, ["run.steps=9"], tmp_path / "run", None, dry_run=True) == 0
    printed = capsys.readouterr().out
    assert "steps = 9" in printed
    assert "clip_high" not in printed or "0.28" in printed
    assert not (tmp_path / "run").exists()
    again = config.with_name("again.toml")
    again.write_text(printed)
    train_command(again, [], None, None, dry_run=True)
    assert capsys.readouterr().out == printed
