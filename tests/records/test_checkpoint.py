"""A crash at any moment and damage of any file leave the old or the new checkpoint, never a mix."""

import contextlib
import json
import math

import pytest
import torch

from posttrain.errors import InputError, RunFailed, RunFolderError
from posttrain.records import checkpoint, fence
from posttrain.records.checkpoint import latest, save
from posttrain.records.manifest import manifest_names, read_manifest
from posttrain.records.retention import prune
from posttrain.records.store import FolderStore


class CrashError(Exception):
    """The process dies."""


class CrashingStore:
    """Pass operations on to a store and die at the nth that writes, before or after it took effect."""

    def __init__(self, store, at, after):
        self.store, self.left, self.after = store, at, after

    def _write(self, operation, *arguments):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise CrashError
        operation(*arguments)
        if self.left == 0:
            raise CrashError

    def put(self, name, blob):
        self._write(self.store.put, name, blob)

    def delete(self, name):
        self._write(self.store.delete, name)

    def get(self, name):
        return self.store.get(name)

    def list(self, prefix):
        return self.store.list(prefix)


def tensors(step):
    return {"a": torch.full((3, 2), float(step)), "b": torch.tensor(step)}


def put(store, step, writer=1, parent=None):
    return save(store, step, tensors(step), {"step": step}, parent, {"threads": 1}, run_id="r", writer=writer)


def whole(found):
    """Tell that all parts of a checkpoint are of its own step."""
    assert found.state == {"step": found.step}
    assert found.tensors.keys() == {"a", "b"}
    assert all(torch.equal(found.tensors[k], v) for k, v in tensors(found.step).items())
    return found.step


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path)


@pytest.fixture
def lines():
    return []


def test_a_run_without_checkpoints_has_no_latest(store):
    assert latest(store, "r") is None


def to_bytes(value):
    return value.contiguous().reshape(-1).view(torch.uint8).tolist()


def test_tensors_and_state_come_back_bit_for_bit(store):
    draw = torch.Generator().manual_seed(0)
    given = {
        "f32": torch.randn(5, 3, generator=draw),
        "bf16": torch.randn(7, generator=draw).bfloat16(),
        "f64": torch.tensor([math.nan, -0.0, math.inf], dtype=torch.float64),
        "i64": torch.tensor(2**62),
        "empty": torch.zeros(0, 4),
        "turned": torch.arange(6).reshape(2, 3).T,
        "bool": torch.tensor([True, False]),
    }
    given["tied"] = given["f32"]
    state = {"lr": 0.1 + 0.2, "best": -math.inf, "nested": {"list": [1, 2.0, None, "é"], "big": 2**70}}
    save(store, 3, given, state, run_id="r", writer=1)
    found = latest(store, "r")
    assert found.state == state
    assert found.tensors.keys() == given.keys()
    for name, value in given.items():
        back = found.tensors[name]
        assert (back.dtype, back.shape) == (value.dtype, value.shape)
        assert to_bytes(back) == to_bytes(value)


def test_the_manifest_tells_parent_environment_and_hashes(store, tmp_path):
    first = put(store, 1)
    second = put(store, 2, parent=first)
    manifest = read_manifest(store, second)
    assert (manifest.parent, manifest.environment, manifest.run_id) == (
        "step-000001.json",
        {"threads": 1},
        "r",
    )
    blob = manifest.blobs["state.json"]
    assert blob.name == "step-000002/attempt-0/state.json"
    assert (tmp_path / blob.name).stat().st_size == blob.size


def test_the_newest_is_the_highest_step_whatever_was_written_last(store):
    for step in (1_000_000, 999_999, 2):
        put(store, step)
    assert latest(store, "r").step == 1_000_000


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_of_a_save_leaves_old_or_new_whole(tmp_path, after):
    outcomes = []
    for at in range(1, 5):
        store = FolderStore(tmp_path / str(at))
        put(store, 1)
        crashing = CrashingStore(store, at, after)
        try:
            put(crashing, 2)
        except CrashError:
            outcomes.append(whole(latest(store, "r", pytest.fail)))
            put(store, 2)  # the step is done again beside what was left
        assert whole(latest(store, "r", pytest.fail)) == 2
    # A save is three writes: two blobs and the manifest, whose name makes the checkpoint.
    assert outcomes == ([1, 1, 2] if after else [1, 1, 1])


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_of_a_prune_keeps_two_whole_checkpoints(tmp_path, after):
    crashes = 0
    for at in range(1, 20):
        store = FolderStore(tmp_path / str(at))
        for step in (1, 2, 3, 4):
            put(store, step)
        try:
            prune(CrashingStore(store, at, after), "r")
        except CrashError:
            crashes += 1
            assert whole(latest(store, "r", pytest.fail)) == 4
            store.delete("step-000004.json")
            assert whole(latest(store, "r", pytest.fail)) == 3
            put(store, 4)
            prune(store, "r")
        assert manifest_names(store) == ["step-000004.json", "step-000003.json"]
        assert len(list(store.list("step-"))) == 6
    assert crashes == 6  # two manifests and four blobs


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_while_setting_aside_loses_no_manifest(store, tmp_path, after):
    put(store, 1)
    put(store, 2)
    (tmp_path / "step-000002/attempt-0/state.json").unlink()
    # Setting aside is two writes, a copy and a deletion; the second crash may come after all is done.
    for at in (1, 2):
        with contextlib.suppress(CrashError):
            latest(CrashingStore(store, at, after), "r", lambda _: None)
        names = [*store.list("step-000002.json"), *store.list("quarantine/step-000002")]
        assert names
    assert whole(latest(store, "r", lambda _: None)) == 1
    assert any(name.startswith("quarantine/step-000002") for name in store.list("quarantine/"))


def flip(path, offset):
    blob = bytearray(path.read_bytes())
    blob[offset] ^= 1
    path.write_bytes(bytes(blob))


BLOBS = ["step-000002/attempt-0/weights.safetensors", "step-000002/attempt-0/state.json", "step-000002.json"]


@pytest.mark.parametrize("name", BLOBS)
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "missing", "longer"])
def test_a_damaged_file_is_set_aside_by_name_and_the_older_one_taken(store, tmp_path, lines, name, damage):
    put(store, 1)
    put(store, 2)
    path = tmp_path / name
    blob = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        changed = {
            "cut": blob[:-1],
            "empty": b"",
            "longer": blob + b"\x00",
            "flip": blob[:9] + b"#" + blob[10:],
        }
        path.write_bytes(changed[damage])
    assert whole(latest(store, "r", lines.append)) == 1
    if name.endswith("2.json") and damage == "missing":
        assert lines == []
        return
    (line,) = lines
    assert line.startswith("checkpoint step-000002.json set aside: ")
    assert name in line
    assert latest(store, "r", pytest.fail).step == 1


def test_every_single_flipped_bit_of_a_manifest_is_noticed_or_harmless(store, tmp_path):
    put(store, 1)
    put(store, 2)
    path = tmp_path / "step-000002.json"
    blob = path.read_bytes()
    wanted = read_manifest(store, path.name)
    for offset in range(len(blob)):
        changed = bytearray(blob)
        changed[offset] ^= 1 << (offset % 8)
        path.write_bytes(bytes(changed))
        try:
            found = latest(store, "r", lambda _: None, quarantine=False)
        except RunFolderError as error:
            pytest.fail(f"byte {offset}: {error}")
        assert found.step == 1 or (found.manifest == wanted and whole(found) == 2)


def test_manifests_of_which_none_is_valid_fail_the_run_again_and_again(store, tmp_path, lines):
    put(store, 1)
    flip(tmp_path / "step-000001/attempt-0/state.json", 0)
    for _ in range(2):
        with pytest.raises(RunFailed, match="none is valid") as failure:
            latest(store, "r", lines.append)
        assert failure.value.exit_code == 1
    assert len(lines) == 1


def test_damage_is_a_warning_where_nobody_listens(store, tmp_path):
    put(store, 1)
    put(store, 2)
    flip(tmp_path / "step-000002/attempt-0/state.json", 0)
    with pytest.warns(
        RuntimeWarning, match=r"step-000002\.json set aside: .*state\.json does not match its sha256"
    ):
        latest(store, "r")


def test_a_reader_moves_nothing(store, tmp_path, lines):
    put(store, 1)
    put(store, 2)
    flip(tmp_path / "step-000002/attempt-0/state.json", 0)
    before = list(store.list(""))
    assert latest(store, "r", lines.append, quarantine=False).step == 1
    assert list(store.list("")) == before
    assert len(lines) == 1


def test_a_step_whose_checkpoint_was_set_aside_can_be_saved_again(store, tmp_path):
    put(store, 1)
    put(store, 2)
    flip(tmp_path / "step-000002/attempt-0/state.json", 0)
    latest(store, "r", lambda _: None)
    put(store, 2)
    found = latest(store, "r", pytest.fail)
    assert whole(found) == 2
    assert found.manifest.blobs["state.json"].name == "step-000002/attempt-1/state.json"


def test_saving_the_same_again_changes_nothing_and_other_content_is_refused(store):
    put(store, 1)
    before = list(store.list(""))
    assert put(store, 1) == "step-000001.json"
    assert list(store.list("")) == before
    with pytest.raises(RunFolderError, match="step 1 already holds"):
        save(store, 1, tensors(1), {"step": 0}, run_id="r", writer=1)


def test_a_checkpoint_of_another_run_is_passed_over_and_kept(store, lines):
    put(store, 1)
    save(store, 2, {}, {}, run_id="other", writer=1)
    assert latest(store, "r", lines.append).step == 1
    assert lines == ["checkpoint step-000002.json passed over: it belongs to run other, not r"]
    assert "step-000002.json" in store.list("")


def test_a_manifest_of_a_later_format_is_refused_and_kept(store, tmp_path):
    put(store, 1)
    text = (tmp_path / "step-000001.json").read_text()
    body = json.loads(text)["manifest"] | {"format": 2}
    blob = json.dumps(body, separators=(",", ":")).encode()
    document = {"checksum": checkpoint.BlobRecord.of("", blob).sha256, "manifest": body}
    (tmp_path / "step-000001.json").write_text(json.dumps(document))
    with pytest.raises(RunFolderError, match="checkpoint format 2"):
        latest(store, "r")
    assert "step-000001.json" in store.list("")


def test_a_state_that_is_not_json_is_refused_before_anything_is_written(store):
    with pytest.raises(InputError, match=r"value\.rng is a Tensor"):
        save(store, 1, {}, {"rng": torch.zeros(1)}, run_id="r", writer=1)
    assert list(store.list("")) == []


# --- fencing -----------------------------------------------------------------------------------------


def test_a_writer_thought_dead_can_write_no_more(store):
    old = fence.claim(store, -1)
    put(store, 1, writer=old)
    new = fence.claim(store, 1)
    assert (old, new) == (1, 2)
    with pytest.raises(RunFailed, match=r"took over this run \(writer 2, this is writer 1\)"):
        put(store, 2, writer=old)
    put(store, 2, writer=new)


def test_what_a_zombie_slips_in_is_passed_over_and_gives_way(store, lines):
    fence.claim(store, -1)
    put(store, 1, writer=1)
    new = fence.claim(store, 1)
    store.delete("fence/000002.json")  # the zombie looked just before the claim
    put(store, 5, writer=1)
    fence.claim(store, 1)
    assert latest(store, "r", lines.append).step == 1
    assert lines == ["checkpoint step-000005.json passed over: writer 2 continued from step 1 before it"]
    save(store, 5, {}, {"mine": True}, run_id="r", writer=new)
    assert latest(store, "r", pytest.fail).state == {"mine": True}


# --- pruning -----------------------------------------------------------------------------------------


def test_pruning_keeps_the_newest_two_and_all_they_need(store):
    for step in (1, 2, 3):
        put(store, step)
    assert prune(store, "r") == ["step-000001.json"]
    assert {name.split("/")[0] for name in store.list("step-")} == {
        "step-000002", "step-000002.json", "step-000003", "step-000003.json",
    }  # fmt: skip


def test_a_damaged_generation_does_not_count_as_kept(store, tmp_path):
    for step in (1, 2, 3):
        put(store, step)
    flip(tmp_path / "step-000003/attempt-0/state.json", 0)
    assert prune(store, "r") == []
    assert whole(latest(store, "r", lambda _: None)) == 2


def test_blobs_without_a_manifest_are_cleared_up_to_the_newest_step(store):
    put(store, 1)
    put(store, 3)
    store.put("step-000002/attempt-0/state.json", b"left by a crash")
    store.put("step-000004/attempt-0/state.json", b"being written")
    prune(store, "r")
    left = list(store.list("step-"))
    assert "step-000002/attempt-0/state.json" not in left
    assert "step-000004/attempt-0/state.json" in left


def test_keeping_one_is_refused(store):
    with pytest.raises(InputError, match="keep = 1"):
        prune(store, "r", keep=1)
