"""One writer, any number of readers, and nothing lost when a run goes back to its checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import posttrain
from posttrain.errors import RunFolderError
from posttrain.records import checkpoint
from posttrain.records.environment import compare_environments, describe_environment
from posttrain.records.groups import groups_path
from posttrain.records.metrics import read_rows
from posttrain.records.run_folder import RunFolder
from posttrain.types import Group, Message, Task

SOURCE = Path(posttrain.__path__[0]).parent


@pytest.fixture
def folder(tmp_path):
    with RunFolder.create(tmp_path / "deep/run", {"seed": 1}, {"device": "cpu"}) as made:
        yield made


def group(sequence):
    return Group(sequence, Task("t", "sums", 0, (Message("user", "?"),), {}), (), ())


def record(folder, step):
    folder.record_step({"step": step, "loss": step / 3})
    folder.record_domains([{"step": step, "domain": "sums"}, {"step": step, "domain": "words"}])
    folder.record_ledger({"step": step})
    folder.record_groups(step, [group(step)])
    folder.record_event("step", f"step {step}")


def test_a_new_folder_tells_what_the_run_is(folder):
    run = json.loads((folder.path / "run.json").read_text())
    assert (run["format"], run["run_id"], run["identity"]) == (1, folder.run_id, {"device": "cpu"})
    assert run["created"].endswith("+00:00")
    assert folder.config == {"seed": 1}
    assert {p.name for p in folder.path.iterdir()} == {
        "run.json", "config.json", "groups", "checkpoints", "adapter", "lock",
    }  # fmt: skip


def test_two_runs_have_different_ids(tmp_path):
    ids = set()
    for name in "ab":
        with RunFolder.create(tmp_path / name, {}, {}) as folder:
            ids.add(folder.run_id)
    assert len(ids) == 2


def test_a_folder_that_holds_anything_is_refused_and_left_alone(tmp_path, folder):
    with pytest.raises(RunFolderError, match="already holds a run"):
        RunFolder.create(folder.path, {}, {})
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match=r"not empty \(it holds 'thesis\.tex'\)"):
        RunFolder.create(other, {}, {})
    assert [p.name for p in other.iterdir()] == ["thesis.tex"]


def test_a_place_where_no_folder_can_be_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/run", tmp_path / ("x" * 300)):
        with pytest.raises(RunFolderError, match="cannot be written") as refusal:
            RunFolder.create(path, {}, {})
        assert refusal.value.exit_code == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="cannot be written"):
        RunFolder.create(tmp_path / "run", {}, {})


def test_a_folder_that_is_no_run_or_of_a_later_format_is_refused(tmp_path, folder):
    with pytest.raises(RunFolderError, match=r"not a run folder \(no run\.json\)"):
        RunFolder.open(tmp_path)
    (folder.path / "run.json").write_text('{"format": 2}')
    with pytest.raises(RunFolderError, match="format 2, but this version of posttrain reads format 1"):
        RunFolder.open(folder.path)
    (folder.path / "run.json").write_text('{"format"')
    with pytest.raises(RunFolderError, match=r"run\.json: cannot be read"):
        RunFolder.open(folder.path)


def test_a_second_trainer_is_kept_out_until_the_first_lets_go(folder):
    with pytest.raises(RunFolderError, match=rf"another trainer \(process {os.getpid()} on "):
        RunFolder.resume(folder.path)
    RunFolder.open(folder.path).close()
    folder.close()
    RunFolder.resume(folder.path).close()


def test_a_trainer_that_is_killed_leaves_no_lock_though_its_forked_child_lives(tmp_path):
    script = (
        "import os, sys, time\n"
        "from posttrain.records.run_folder import RunFolder\n"
        "folder = RunFolder.create(sys.argv[1], {}, {})\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60)\n"
        "time.sleep(0.2)\n"
        "print(child, flush=True)\n"
        "time.sleep(60)\n"
    )
    path = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    trainer = subprocess.Popen(
        [sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True, env=environment
    )
    child = int(trainer.stdout.readline())
    try:
        with pytest.raises(RunFolderError, match=f"process {trainer.pid} on"):
            RunFolder.resume(path)
        trainer.kill()
        trainer.wait()
        os.kill(child, 0)
        RunFolder.resume(path).close()
    finally:
        trainer.kill()
        trainer.stdout.close()
        os.kill(child, 9)


def test_a_reader_cannot_write(folder):
    reader = RunFolder.open(folder.path)
    with pytest.raises(AssertionError):
        reader.record_step({"step": 1})
    with pytest.raises(AssertionError):
        reader.rewind({})


def test_rewinding_moves_what_came_later_and_redone_steps_stand_once(folder):
    record(folder, 1)
    positions = json.loads(json.dumps(folder.positions()))
    kept = {name: (folder.path / name).read_bytes() for name in positions}
    assert sorted(kept) == ["domains.jsonl", "groups/step-000001.jsonl", "ledger.jsonl", "metrics.jsonl"]
    record(folder, 2)
    whole = {name: (folder.path / name).read_bytes() for name in folder.positions()}
    with (folder.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step":3,"lo')

    lines = folder.rewind(positions)
    assert len(lines) == 4
    assert "groups/step-000002.jsonl" in lines[3]
    assert {name: (folder.path / name).read_bytes() for name in folder.positions()} == kept
    moved = folder.path / "superseded/001"
    assert (moved / "metrics.jsonl").read_bytes() == b'{"step":2,"loss":0.6666666666666666}\n{"step":3,"lo'
    assert (moved / "groups/step-000002.jsonl").read_bytes() == whole["groups/step-000002.jsonl"]

    record(folder, 2)
    assert {name: (folder.path / name).read_bytes() for name in folder.positions()} == whole
    events = read_rows(folder.path / "events.jsonl", pytest.fail)
    assert [event["text"] for event in events] == ["step 1", "step 2", "step 2"]


def test_rewinding_twice_or_to_where_one_stands_changes_nothing(folder):
    record(folder, 1)
    positions = folder.positions()
    assert folder.rewind(positions) == []
    assert not (folder.path / "superseded").exists()
    assert folder.rewind({}) != []
    assert folder.positions() == {}
    assert folder.rewind({}) == []
    assert groups_path(folder.path / "superseded/001", 1).exists()


def test_a_crash_between_copy_and_cut_loses_nothing(folder, monkeypatch):
    from posttrain.records import following

    record(folder, 1)
    positions = folder.positions()
    record(folder, 2)

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(following, "_truncate", die)
        with pytest.raises(KeyboardInterrupt):
            folder.rewind(positions)
    folder.rewind(positions)
    assert [row["step"] for row in read_rows(folder.path / "metrics.jsonl", pytest.fail)] == [1]
    for number in ("001", "002"):
        moved = read_rows(folder.path / "superseded" / number / "metrics.jsonl", pytest.fail)
        assert [row["step"] for row in moved] == [2]


def test_a_record_that_lost_rows_is_an_error_and_removed_groups_are_named(folder):
    record(folder, 1)
    positions = folder.positions()
    groups_path(folder.path, 1).unlink()
    assert folder.rewind(positions) == ["groups/step-000001.jsonl: removed since the checkpoint"]
    os.truncate(folder.path / "metrics.jsonl", 3)
    with pytest.raises(
        RunFolderError, match=r"metrics\.jsonl: 3 bytes, but the checkpoint was made when it had"
    ):
        folder.rewind(positions)


def test_a_replaced_config_keeps_the_old_one(folder):
    folder.replace_config({"seed": 2})
    assert folder.config == {"seed": 2}
    assert json.loads((folder.path / "superseded/001/config.json").read_text()) == {"seed": 1}


def test_a_whole_life_with_a_crash_goes_on_from_the_checkpoint(tmp_path):
    path = tmp_path / "run"
    with RunFolder.create(path, {}, {}) as folder:
        writer = folder.claim()
        record(folder, 1)
        state = {"positions": folder.positions()}
        saved = checkpoint.save(folder.checkpoints, 1, {}, state, run_id=folder.run_id, writer=writer)
        record(folder, 2)
    (path / "checkpoints/.half.0123.tmp").touch()
    with RunFolder.resume(path) as folder:
        assert not list(path.rglob("*.tmp"))
        found = checkpoint.latest(folder.checkpoints, folder.run_id, pytest.fail)
        assert found.name == saved
        folder.rewind(found.state["positions"])
        assert folder.claim(found.step) == 2
        record(folder, 2)
        checkpoint.save(
            folder.checkpoints, 2, {}, {}, parent=found.name, run_id=folder.run_id, writer=folder.writer
        )
    rows = read_rows(path / "metrics.jsonl", pytest.fail)
    assert [row["step"] for row in rows] == [1, 2]


def test_the_environment_is_plain_json_and_differences_are_named():
    facts = describe_environment("cpu", "float32")
    assert json.loads(json.dumps(facts)) == facts
    assert {"python", "torch", "transformers", "threads", "cpu_capability", "git"} <= facts.keys()
    assert compare_environments(facts, facts) == []
    assert compare_environments({"threads": 1, "a": 0}, {"threads": 2, "a": 0}) == ["threads: 1 → 2"]


def test_records_load_no_torch():
    modules = (
        "run_folder",
        "checkpoint",
        "retention",
        "identity",
        "ledger",
        "metrics",
        "groups",
        "environment",
    )
    script = "import sys\n" + "".join(f"import posttrain.records.{name}\n" for name in modules)
    script += "sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 0
