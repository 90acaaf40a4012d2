"""Draw tasks beside the loop: users' functions make them, so they get a deadline and their errors a name."""

from __future__ import annotations

from posttrain.errors import PosttrainError, RunFailed
from posttrain.protocols import Curriculum, Draw
from posttrain.runtime.inline import Aside, DeadlineExceeded

SECONDS = 300.0
"""How long the tasks of one step may take to be made."""


async def drawn(curriculum: Curriculum, count: int, aside: Aside) -> list[Draw]:
    """Return the next `count` draws; raise RunFailed where a domain's `task` raises or does not return."""

    async def work() -> list[Draw]:
        return curriculum.draw(count)

    try:
        return await aside.run(work, SECONDS)
    except PosttrainError:
        raise
    except DeadlineExceeded as late:
        raise RunFailed(
            f"making {count} tasks: {late}. Some domain's `task` hangs: find it by running each "
            "domain alone, mend it, and go on with --resume."
        ) from None
    except Exception as error:  # a user's domain may raise anything
        raise RunFailed(
            f"making {count} tasks: {type(error).__name__}: {error}. Mend the domain, then use --resume."
        ) from error
