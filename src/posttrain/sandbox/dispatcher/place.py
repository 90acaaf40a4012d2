"""Where a dispatcher's workers live: boxes, users, control groups, rules."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from posttrain.sandbox.confine import Level, Rules, default_readable, own_user
from posttrain.sandbox.worker import box
from posttrain.sandbox.worker.job import Setup

NUM_DISPATCHERS = (1 << 22, 16)
"""How many dispatchers get users of their own: one for each process id there can be, or a few."""
USERS_PER_DISPATCHER = 256
"""Each worker's candidates run as a user of their own, also apart from those of other dispatchers."""
V1_CONTROLLERS = ("memory", "pids")
CGROUPS = Path("/sys/fs/cgroup")
PREFIX, OWNER = "posttrain-sandbox-", "owner"
"""What folders are called, and the file in each that is locked as long as its dispatcher or warden lives."""


@dataclass(slots=True)
class Place:
    """One folder below the system's temporary one: a box for each worker, and what all may read."""

    level: Level
    import_folders: tuple[str, ...] = ()
    landlock_abi: int | None = None
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix=PREFIX))
    workers: set[int] = field(default_factory=set)
    _free: set[int] = field(default_factory=lambda: set(range(USERS_PER_DISPATCHER)))

    def __post_init__(self) -> None:
        lock = os.open(f"{self.folder}/{OWNER}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # held until every process that has it open is gone
        os.chmod(self.folder, 0o711)
        os.mkdir(self.shared, 0o755)
        _remove_orphans(os.path.dirname(self.folder))

    @property
    def shared(self) -> str:
        """Return the folder that every box can read: precompiled headers."""
        return f"{self.folder}/shared"

    def take(self) -> int:
        """Return a free slot; RuntimeError where there is none."""
        if not self._free:
            raise RuntimeError(
                f"no more than {USERS_PER_DISPATCHER} workers and sessions can be open at once"
            )
        slot = min(self._free)
        self._free.remove(slot)
        return slot

    def give_back(self, slot: int) -> None:
        """Remove what a slot had; its worker has ended."""
        for group in self._groups(slot):
            with suppress(OSError):
                os.rmdir(group)
        with suppress(OSError):
            box.empty(self.box(slot))
            os.rmdir(self.box(slot))
        self._free.add(slot)

    def box(self, slot: int) -> str:
        """Return the path of a slot's box."""
        return f"{self.folder}/box-{slot}"

    def make_box(self, slot: int) -> None:
        """Make a slot's box, owned by its user."""
        os.mkdir(self.box(slot), 0o700)
        user = self._user(slot)
        if user is not None:
            os.chown(self.box(slot), user, user)

    def set_up(self, slot: int, shared_box: int | None = None) -> Setup:
        """Return the set-up of a slot's worker, for its own box or that of another."""
        owner = slot if shared_box is None else shared_box
        path, user = self.box(owner), self._user(owner)
        readable = (*default_readable(), *self.import_folders, self.shared)
        function = Rules(self.level, "function", readable, (path,), self.landlock_abi, user)
        command = Rules(self.level, "command", readable, (path,), self.landlock_abi, user)
        groups = tuple(self._make_groups(slot))
        return Setup(function, command, path, self.import_folders, groups, shared_box is not None)

    def remove(self) -> None:
        """Remove the whole folder and every group, and what killed dispatchers have left."""
        _remove(self.folder)
        _remove_orphans(os.path.dirname(self.folder))

    def _user(self, slot: int) -> int | None:
        if self.level == Level.NONE:
            return None
        for dispatchers in NUM_DISPATCHERS:  # containers may have few users
            user = own_user(os.getpid() % dispatchers * USERS_PER_DISPATCHER + slot)
            if user is not None:
                return user
        return None

    def _groups(self, slot: int) -> list[str]:
        return [f"{parent}/{Path(self.folder).name}-{slot}" for parent in _group_parents()]

    def _make_groups(self, slot: int) -> list[str]:
        if self.level == Level.NAMESPACES:  # its workers see no control groups
            return []
        made = []
        for group in self._groups(slot):
            with suppress(OSError):
                os.mkdir(group)
                made.append(group)
        return made


def _remove_orphans(parent: str) -> None:
    """Remove the folders of this user's dispatchers that were killed together with their wardens."""
    for path in Path(parent).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.lstat().st_uid != os.geteuid() or path.is_symlink():
                continue
            owner = os.open(path / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError where somebody lives
                _remove(str(path))
            finally:
                os.close(owner)


def _remove(folder: str) -> None:
    """Remove a folder of boxes and the control groups that are named after it."""
    for parent in _group_parents():
        for group in Path(parent).glob(f"{Path(folder).name}-*"):
            with suppress(OSError):
                group.rmdir()
    for path in Path(folder).glob("box-*"):
        with suppress(OSError):
            box.empty(str(path))
    shutil.rmtree(folder, ignore_errors=True)


def _group_parents() -> list[str]:
    """Return the control groups of this process below which it may make others."""
    found = []
    with suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in set(controllers.split(",")) & set(V1_CONTROLLERS):
                found.append(CGROUPS / controller / path.lstrip("/"))
            if not controllers and _delegates(CGROUPS / path.lstrip("/")):
                found.append(CGROUPS / path.lstrip("/"))
    return sorted(str(folder) for folder in found if os.access(folder, os.W_OK))


def _delegates(folder: Path) -> bool:
    """Tell whether groups made below a cgroup v2 folder would have a memory controller."""
    with suppress(OSError):
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    return False
