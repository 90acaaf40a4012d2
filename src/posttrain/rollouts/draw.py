"""Draw tasks beside the loop: users' functions make them, so they get a deadline and their errors a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from posttrain.errors import PosttrainError, RunFailed
from posttrain.protocols import Curriculum, Draw
from posttrain.runtime.inline import Aside, DeadlineExceeded

T = TypeVar("T")
SECONDS = 300.0
"""How long the tasks of one step may take to be made."""


async def drawn(curriculum: Curriculum, count: int, aside: Aside) -> list[Draw]:
    """Return the next `count` draws; raise RunFailed where a domain's `task` raises or does not return."""

    hint = "find it by running each domain alone, mend it, and go on with --resume."
    return await made(f"making {count} tasks", lambda: curriculum.draw(count), aside, hint)


async def made(what: str, make: Callable[[], T], aside: Aside, hint: str) -> T:
    """Return what a user's function for tasks gives; RunFailed that says `what` where it fails or hangs."""

    async def work() -> T:
        return make()

    try:
        return await aside.run(work, SECONDS, lane="tasks")
    except PosttrainError:
        raise
    except DeadlineExceeded as late:
        raise RunFailed(f"{what}: {late}. Some domain's `task` hangs: {hint}") from None
    except Exception as error:  # a user's domain may raise anything
        raise RunFailed(
            f"{what}: {type(error).__name__}: {error}. A domain's `task` fails: {hint}"
        ) from error
