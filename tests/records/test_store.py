"""A folder store keeps what it took and never replaces it."""

import errno
import os

import pytest

from posttrain.errors import RunFolderError
from posttrain.records import durable
from posttrain.records.store import FolderStore

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="tells open files by /proc")


def test_a_blob_reads_back_and_is_listed_by_prefix(tmp_path):
    store = FolderStore(tmp_path)
    store.put("a/one", b"\x00\xff")
    store.put("b", b"")
    assert store.get("a/one") == b"\x00\xff"
    assert store.get("b") == b""
    assert list(store.list("")) == ["a/one", "b"]
    assert list(store.list("a/")) == ["a/one"]


def test_a_taken_name_is_refused_and_keeps_its_blob(tmp_path):
    store = FolderStore(tmp_path)
    store.put("x", b"old")
    with pytest.raises(FileExistsError):
        store.put("x", b"new")
    assert store.get("x") == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_without_hard_links_a_taken_name_is_still_refused(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    store = FolderStore(tmp_path)
    store.put("x", b"old")
    with pytest.raises(FileExistsError):
        store.put("x", b"new")
    assert store.get("x") == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


@needs_proc
def test_a_blob_is_synced_before_it_has_a_name_and_its_folder_after(tmp_path, monkeypatch):
    seen, fsync, link = [], os.fsync, os.link
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "link", lambda a, b: (seen.append("link"), link(a, b)))
    FolderStore(tmp_path).put("x", b"blob")
    assert seen[0].endswith(".tmp")
    assert seen[1:] == ["link", str(tmp_path)]


@needs_proc
def test_a_new_folder_is_made_durable_in_its_parent(tmp_path, monkeypatch):
    seen, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (seen.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    FolderStore(tmp_path).put("a/b/x", b"")
    assert seen[:2] == [str(tmp_path), str(tmp_path / "a")]


def test_a_missing_blob_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        FolderStore(tmp_path).get("x")


def test_deleting_removes_the_folders_it_empties_but_no_other(tmp_path):
    store = FolderStore(tmp_path / "root")
    store.put("a/b/x", b"")
    store.put("a/y", b"")
    store.delete("a/b/x")
    store.delete("a/b/x")
    assert list(store.list("")) == ["a/y"]
    assert not (tmp_path / "root/a/b").exists()
    store.delete("a/y")
    assert (tmp_path / "root").is_dir()
    assert not (tmp_path / "root/a").exists()


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a\\b"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with pytest.raises(RunFolderError, match="not a blob's name"):
        FolderStore(tmp_path).put(name, b"")


def test_half_written_files_have_no_name_and_are_swept(tmp_path):
    (tmp_path / ".x.1234.tmp").write_bytes(b"half")
    assert list(FolderStore(tmp_path).list("")) == []
    durable.sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
