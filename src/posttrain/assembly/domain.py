"""Is this a domain? What its functions must give, tried before anything is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from posttrain.errors import ConfigError, InputError, PosttrainError
from posttrain.records import exact_json
from posttrain.runtime.inline import DeadlineExceeded, within
from posttrain.types import Domain, Message, Split, Task

T = TypeVar("T")
SECONDS = 60.0
"""How long making a domain or a task may take: some generators loop forever on settings nothing satisfies."""
NUM_TRIED = 4
LATER = 1_000_000
"""An index far into training: finite domains begin again after `size` tasks, and must not run out."""
MEND = "Mend the domain; docs/how-to/own_domain.md says what each function gives."
ROLES = ("system", "user", "assistant", "tool")


def attempted(what: str, work: Callable[[], T], source: str, key: str, hint: str = MEND) -> T:
    """Return what a user's function returns; any failure of it becomes a ConfigError that names it."""
    try:
        return within(SECONDS, work)
    except PosttrainError:
        raise
    except DeadlineExceeded as late:
        raise ConfigError(
            f"{what} does not come to an end: {late}",
            key=key,
            source=source,
            hint="Its settings may leave nothing to find; change them.",
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{what} raised {type(error).__name__}: {error}", key=key, source=source, hint=hint
        ) from error


def check_domain(domain: Domain, level: int, source: str, key: str) -> None:
    """Raise ConfigError where name, sizes or the first tasks of a domain are not what they must be."""

    def wrong(problem: str, hint: str) -> ConfigError:
        return ConfigError(problem, key=key, source=source, hint=hint)

    if not isinstance(domain.name, str) or not domain.name:
        raise wrong(f"the domain's name is {domain.name!r}", "Give it a name: text, not empty.")
    if not math.isfinite(domain.success):
        raise wrong(
            f"{domain.name}.success is {domain.success}", "Give the reward at which an attempt succeeds."
        )
    splits: tuple[Split, ...] = ("train", "eval")
    for split in splits:
        size = attempted(f"{domain.name}.size", partial(domain.size, split, level), source, key)
        if size is not None and (not isinstance(size, int) or size < 0):
            raise wrong(
                f"{domain.name}.size gave {size!r}", "It gives a number of tasks, or None for endless."
            )
        if size == 0:
            raise wrong(
                f"{domain.name} has no {split} task at level {level}", "Choose another level or domain."
            )
        for index in (*range(NUM_TRIED), *([] if size is None else [size]), LATER):
            what = f"{domain.name}.task({split!r}, {level}, {index})"
            task = attempted(what, partial(domain.task, split, level, index), source, key)
            if problem := _problem(task, domain):
                raise wrong(f"{what} {problem}", "See posttrain.types.Task.")


def _problem(task: Any, domain: Domain) -> str | None:
    """Say what is wrong with a task, or None."""
    if not isinstance(task, Task):
        return f"gave {type(task).__name__}, not a posttrain.Task"
    if task.domain != domain.name:
        return f"belongs to domain {task.domain!r}, not to {domain.name!r}: the two names must be equal"
    name: object = task.id
    if not isinstance(name, str):
        return f"has the id {name!r}, which is not text"
    prompt: object = task.prompt
    if not isinstance(prompt, tuple) or not prompt:
        return "has no prompt: it must be a tuple of at least one Message"
    for message in prompt:
        if (
            not isinstance(message, Message)
            or message.role not in ROLES
            or not isinstance(message.content, str)
        ):
            return f"has {message!r} in its prompt, not a Message with text and a role of {', '.join(ROLES)}"
        try:
            message.content.encode()
        except UnicodeEncodeError:
            return "has text in its prompt that no encoding can hold (a lone surrogate)"
    reference: object = task.reference
    if not isinstance(reference, Mapping):
        return f"has a {type(reference).__name__} as reference, not a mapping"
    try:
        exact_json.dumps({"reference": reference, "tools": task.tools, "setup": task.setup})
    except (InputError, ValueError) as error:
        return f"cannot be recorded: {error}"
    return None
