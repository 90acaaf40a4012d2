"""Files from inside: nothing outside of the box is read, written, made, moved, linked, run or changed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from boxed import Outcome, Place, Setting, outcomes, trial, tried
from settings import CHECKED, EVERY, HARDEST

ATTACKS = {
    "read": "open(CANARY).read()",
    "read by descriptor of its folder": "os.open('canary', os.O_RDONLY, dir_fd=os.open(FOLDER, os.O_PATH))",
    "read after going there": "os.chdir(FOLDER); open('canary').read()",
    "read through a symbolic link": "os.symlink(CANARY, 'link'); open('link').read()",
    "read through the link of a path descriptor": (
        "open(f'/proc/self/fd/{os.open(CANARY, os.O_PATH)}').read()"
    ),
    "list": "os.listdir(FOLDER)",
    "write": "open(CANARY, 'w').write('x')",
    "append": "open(CANARY, 'a').write('x')",
    "open for updating": "open(CANARY, 'r+').write('x')",
    "truncate by path": "os.truncate(CANARY, 0)",
    "truncate by opening to read": "os.open(CANARY, os.O_RDONLY | os.O_TRUNC)",
    "truncate by opening for control": "os.open(CANARY, 3 | os.O_TRUNC)",
    "open for control": "os.open(CANARY, 3)",
    "create": "open(FOLDER + '/new', 'w')",
    "create without a name": "os.open(FOLDER, os.O_TMPFILE | os.O_WRONLY)",
    "remove": "os.unlink(CANARY)",
    "make a folder": "os.mkdir(FOLDER + '/new')",
    "make a pipe": "os.mkfifo(FOLDER + '/new')",
    "make a link there": "os.symlink('x', FOLDER + '/new')",
    "move into the box": "os.rename(CANARY, 'taken')",
    "move out of the box": "open('mine', 'w').close(); os.rename('mine', FOLDER + '/new')",
    "replace": "open('mine', 'w').close(); os.replace('mine', CANARY)",
    "link into the box": "os.link(CANARY, 'linked')",
    "link out of the box": "open('mine', 'w').close(); os.link('mine', FOLDER + '/new')",
    "change its mode": "os.chmod(CANARY, 0)",
    "change its folder's mode": "os.chmod(FOLDER, 0)",
    "change its owner": "os.chown(CANARY, os.getuid(), os.getgid())",
    "set an attribute": "os.setxattr(CANARY, 'user.x', b'x')",
    "read an attribute": "os.getxattr(CANARY, 'user.x')",
    "load as a library": "import ctypes; ctypes.CDLL(CANARY)",
    "map": "import mmap; mmap.mmap(os.open(CANARY, os.O_RDONLY), 0, prot=mmap.PROT_READ)",
    "run": "os.execv(CANARY, ['canary'])",
}
SECRETS = """
    /etc/passwd /etc/shadow /etc/group /etc/hosts /etc/hostname /etc/resolv.conf /etc/machine-id /etc/ssh
    /root /home /tmp /var/tmp /var/log /dev/shm /dev/tty /dev/kmsg /dev/mem /sys /proc /proc/self/environ
    /proc/self/maps /proc/self/mem /proc/self/fd /proc/1/environ /proc/version /proc/sys/kernel/hostname
    /proc/meminfo /run /boot /run/secrets /var/run/docker.sock
"""


def state(place: Place) -> object:
    """Everything about the canary and its folder that an attack could change."""
    entries = sorted(os.listdir(place.canary.parent))
    facts = [path.stat() for path in (place.canary, place.canary.parent)]
    return (
        entries,
        place.canary.read_text(),
        [(f.st_mode, f.st_uid, f.st_mtime_ns, f.st_nlink) for f in facts],
    )


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_no_attack_on_files_outside_succeeds_or_leaves_a_trace(setting: Setting) -> None:
    prelude = "import os\nFOLDER = os.path.dirname(CANARY)\n"
    with trial(setting) as place:
        before = state(place)
        found = outcomes(setting, place, [prelude + attack for attack in ATTACKS.values()])
        assert state(place) == before
    through = {name: o for name, o in zip(ATTACKS, found, strict=True) if o.ended != "1"}
    assert through == {}, "each attack ends in an exception"
    errors = {name: outcome.printed for name, outcome in zip(ATTACKS, found, strict=True)}
    assert {name for name, text in errors.items() if "Error" not in text.partition(":")[0]} == set()


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_times_of_files_outside_stay_though_setting_them_may_pretend_to_work(setting: Setting) -> None:
    with trial(setting) as place:
        before = state(place)
        outcomes(setting, place, ["import os; os.utime(CANARY, (1, 1))"])
        assert state(place) == before


@pytest.mark.parametrize("setting", CHECKED, ids=str)
def test_accounts_homes_devices_and_other_processes_cannot_be_read(setting: Setting) -> None:
    code = f"""
import os
others = [f"/proc/{{WORKER}}/environ", f"/proc/{{OUTSIDE}}/cmdline", os.path.expanduser("~")]
for path in {SECRETS.split()} + others:
    for act in (os.listdir, lambda path: os.read(os.open(path, os.O_RDONLY), 1)):
        try:
            act(path)
            print("read", path)
        except OSError as error:
            assert error.errno in (1, 2, 13, 20, 21), (path, error)
"""
    assert tried(setting, [code]) == [Outcome("0", "")]


@pytest.mark.parametrize("setting", EVERY, ids=str)
def test_the_box_itself_can_be_used_freely(setting: Setting) -> None:
    code = """
import os, shutil, tempfile
os.mkdir("folder")
with open("folder/file", "w") as file:
    file.write("hello")
with open("folder/file", "r+") as file:
    file.truncate(2)
with open("folder/file", "w") as file:
    file.write("hello")
os.rename("folder/file", "folder/other")
shutil.copyfile("folder/other", "copy")
os.symlink("copy", "link")
os.link("copy", "linked")
os.mkfifo("pipe")
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as file:
    file.write(b"x")
    open(folder + "/a", "x").close()
assert open("link").read() == "hello" and sorted(os.listdir()) == ["copy", "folder", "link", "linked", "pipe"]
shutil.rmtree("folder")
open("/dev/null", "w").write("x")
assert open("/dev/urandom", "rb").read(3) != b"" and open("/dev/zero", "rb").read(1) == bytes(1)
print("fine")
"""
    assert tried(setting, [code]) == [Outcome("0", "fine")]


def test_moving_between_folders_of_the_box_needs_landlock_2() -> None:
    code = "import os; os.mkdir('a'); open('a/x', 'w'); os.rename('a/x', 'x'); print(os.listdir())"
    assert "Invalid cross-device link" in tried(HARDEST, [code])[0].printed
    assert tried(Setting(abi=3, container=True), [code])[0].ended == "0"


def test_the_environment_and_open_descriptors_hold_only_what_the_worker_gave() -> None:
    code = """
import os
print(sorted(os.environ))
for descriptor in range(3, 200):
    try:
        print(descriptor, os.fstat(descriptor))
    except OSError:
        pass
"""
    (outcome,) = tried(Setting(), [code])
    assert outcome.printed in ("['LANG', 'LC_CTYPE', 'PATH', 'TMPDIR']", "['LANG', 'PATH', 'TMPDIR']")
