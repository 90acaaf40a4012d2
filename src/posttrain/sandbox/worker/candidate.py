"""What happens in a forked candidate: give up everything, take the program in, and become it."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass, replace
from typing import NoReturn

from posttrain.sandbox.confine import Confinement
from posttrain.sandbox.confine.kernel import PR_SET_PDEATHSIG, prctl
from posttrain.sandbox.worker import python, shell
from posttrain.sandbox.worker.conversation import FAILED, READY, Conversation
from posttrain.sandbox.worker.groups import Group
from posttrain.sandbox.worker.job import NOT_READY_CODE, Job, Setup
from posttrain.sandbox.worker.payload import Payload, take_in

PR_GET_DUMPABLE = 3
SESSION_TASKS = 256
"""What the other workers of a session, whose user is the same, may have beside a run."""
NUM_REHEARSALS = 24
"""The interpreter specialises code after some calls of it."""
TALK = 3
"""The descriptor of the conversation; besides the standard streams nothing else is open."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a candidate is forked with."""

    job: Job
    confinement: Confinement
    group: Group
    setup: Setup


def become(start: Start, descriptors: list[int]) -> NoReturn:
    """Turn this forked process into the candidate; it never returns to the worker's loop."""
    code = NOT_READY_CODE
    talk = Conversation(TALK, reads_ahead=start.job.mode != "shell-session")
    try:
        _leave_the_worker(start, descriptors)
        if start.setup.keep_box:  # what earlier runs of a session made of its box is not our failure
            talk.send(READY)
            code = 1
        payload = take_in(talk)
        if not start.setup.keep_box:
            talk.send(READY)
        code = 1
        code = _run(start, payload, talk)
    except BaseException as error:
        # Before READY this is a failure of ours, and the exit code says so; later nobody believes the text.
        talk.send(FAILED, f"{type(error).__name__}: {error}".encode(errors="replace"))
    finally:
        os._exit(code)


def _run(start: Start, payload: Payload, talk: Conversation) -> int:
    """Run the program and return its exit code; one that is executed never comes back."""
    mode = start.job.mode
    if mode == "calls":
        return python.answer_calls(payload, talk)
    if mode == "script":
        return python.run_script(payload, talk)
    if mode == "python-session":
        return python.serve_session(payload, talk)
    os.set_inheritable(TALK, mode == "shell-session")
    shell.execute(payload)


def _leave_the_worker(start: Start, descriptors: list[int]) -> None:
    """Keep three or four descriptors and no right that the rules do not grant."""
    worker = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if start.job.profile == "command":
        os.setsid()
        start.group.enter()
    _arrange(descriptors)
    os.chdir(start.setup.box)
    limits = start.job.limits
    if start.setup.keep_box:  # a session's workers share a user, whose tasks the kernel counts together
        limits = replace(limits, num_processes=limits.num_processes + SESSION_TASKS)
    start.confinement.apply(limits, keep=(TALK,))
    if os.getppid() != worker:
        raise ProcessLookupError("the worker is gone")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _arrange(descriptors: list[int]) -> None:
    """Put conversation, output and error where a program expects them."""
    talk, *outputs = (os.dup(descriptor) for descriptor in descriptors)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    for target, source in zip((1, 2), outputs or (nothing, nothing), strict=True):
        os.dup2(source, target)
    os.dup2(talk, TALK, inheritable=False)


def rehearse() -> None:
    """Go through the start of a candidate in the worker itself, as far as that leaves no trace."""
    errors = os.dup(2)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for _ in range(NUM_REHEARSALS):
            _arrange([theirs.fileno()])
            python.rehearse(Conversation(TALK), ours)
            prctl(PR_GET_DUMPABLE)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, TALK, inheritable=False)
    os.dup2(errors, 2)
    os.close(nothing)
    os.close(errors)
