"""What a worker prepares once and each candidate enters just before untrusted code runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from posttrain.sandbox.confine import identity, landlock, rlimits, view
from posttrain.sandbox.confine.kernel import (
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    limit_malloc_arenas,
    prctl,
)
from posttrain.sandbox.confine.levels import DEVICES, LATEST_ABI, Level, Rules
from posttrain.sandbox.confine.seccomp import Filter, Surroundings

if TYPE_CHECKING:
    from posttrain.protocols import Limits


class Confinement:
    """A prepared confinement: the filter's bytes, a Landlock ruleset, and who to become.

    `apply` is irrevocable and meant for a freshly forked, single-threaded process. Everything that can fail
    for lack of support fails here, in the worker.
    """

    def __init__(self, rules: Rules) -> None:
        if rules.level > Level.NONE and not rules.uid and identity.can_become(identity.FIRST_USER):
            raise PermissionError("as root, candidates need a user of their own to become: set `uid`")
        self.rules = rules
        self.abi = min(
            landlock.kernel_abi(), LATEST_ABI if rules.landlock_abi is None else rules.landlock_abi
        )
        if rules.level >= Level.LANDLOCK and self.abi < 1:
            raise OSError("this kernel has no Landlock")
        self._drops = rules.uid is not None and identity.can_become(rules.uid)
        self._scoped = self._bounded = False
        self._ruleset = self._prepare_files() if rules.level >= Level.LANDLOCK else None
        limit_malloc_arenas(1)
        self._filter = Filter(rules.profile, self._surroundings())
        self._tasks_before = 0 if self._drops else rlimits.count_tasks(os.geteuid()) + _ROOM

    def enclose(self) -> bool:
        """Prepare the calling worker itself, once at its start; return `can_signal_all`.

        As root it gets a view of the file system in which its candidates' user reaches what `rules` list.
        Where the kernel can (Landlock ABI 6), its signals are kept inside: it reaches its descendants only.
        """
        identity.shrink_bounds()
        self._bounded = True
        if self._drops:
            view.reveal((*self.rules.readable, *self.rules.writable, *filter(os.path.isabs, sys.path)))
        if self._governs_signals and not self._scoped:
            identity.forbid_new_privileges()
            self._scoped = _enter_signal_scope()
        return self.can_signal_all()

    def can_signal_all(self) -> bool:
        """Tell whether kill(-1) by the worker reaches exactly its run's processes."""
        return self._scoped or self._is_first_process()

    def kill_all(self) -> bool:
        """Kill every process of the worker's run, if that can be done at once; tell whether it was.

        In its own signal scope or process namespace the worker does it itself; as root, a helper does that
        becomes the run's user. Otherwise nothing is done, since kill(-1) would reach strangers.
        """
        if self.can_signal_all():
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return True
        return self._drops and self._kill_as_user()

    def apply(self, limits: Limits, keep: Collection[int] | None = None) -> None:
        """Confine this process for good, or raise OSError; then untrusted code must not run.

        The process dies with its parent from here on. With `keep`, every descriptor from 3 on but those is
        closed; without, descriptors are the caller's to close.
        """
        if self.rules.level == Level.NONE:
            return
        parent = os.getppid()
        rlimits.apply(limits, self.rules.profile, self._tasks_before)
        if not self._bounded:
            identity.shrink_bounds()
        if self._drops and self.rules.uid is not None:
            identity.become(self.rules.uid)
        identity.give_up_privileges()
        # Landlock keeps others' candidates away; without it this does. The worker should see what it watches.
        prctl(PR_SET_DUMPABLE, int(self.rules.level >= Level.LANDLOCK))
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it, so not before
        if os.getppid() != parent:
            raise ProcessLookupError("the worker is gone")
        if self._ruleset is not None:
            self._ruleset.enter()
        if keep is not None:
            _close_all_but(keep)
        elif self._ruleset is not None:
            self._ruleset.close()
        self._filter.enter(os.getpid())

    def _kill_as_user(self) -> bool:
        assert self.rules.uid
        helper = os.fork()
        if helper == 0:
            try:
                identity.become(self.rules.uid)
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except BaseException:
                os._exit(1)
            os._exit(0)
        # A fork bomb of the same user may kill the helper first; the caller asks again.
        return os.waitpid(helper, 0)[1] == 0

    def _prepare_files(self) -> landlock.Ruleset:
        ruleset = landlock.Ruleset(self.abi)
        ruleset.allow_reading(self.rules.readable)
        ruleset.allow_writing(self.rules.writable)
        ruleset.allow_devices(DEVICES)
        return ruleset

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            signals=self._governs_signals or self._drops or self._is_first_process(),
            files=self._drops or self.rules.level >= Level.NAMESPACES,
            truncation=self.rules.level >= Level.LANDLOCK and self.abi >= landlock.TRUNCATION_ABI,
            times=self.rules.level >= Level.NAMESPACES,
        )

    @property
    def _governs_signals(self) -> bool:
        return self.rules.level >= Level.LANDLOCK and self.abi >= landlock.SIGNAL_SCOPE_ABI

    def _is_first_process(self) -> bool:
        return self.rules.level >= Level.NAMESPACES and os.getpid() == 1


_FIRST_DESCRIPTOR, _MOST_DESCRIPTORS = 3, 2**31 - 1
_ROOM = 1024
"""Tasks that a shared user may gain beside a run before the run's own task limit is felt."""


def _close_all_but(keep: Collection[int]) -> None:
    start = _FIRST_DESCRIPTOR
    for descriptor in sorted(number for number in keep if number >= start):
        os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _MOST_DESCRIPTORS)


def _enter_signal_scope() -> bool:
    """Keep this process's signals inside; tell whether one that was left outside is really out of reach."""
    reading, writing = os.pipe()
    outsider = os.fork()
    if outsider == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        descriptor = landlock.signal_scope()
        landlock.enter(descriptor)
        os.close(descriptor)
        os.kill(outsider, 0)
    except PermissionError:
        return True
    finally:
        os.close(reading)
        os.close(writing)
        os.waitpid(outsider, 0)
    return False


SECURITY_SIGNAL = signal.SIGSYS
"""What a process dies of that makes a forbidden call."""
