"""Does a task's prompt give its answer away?"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from posttrain.types import Task

SECRET_KEYS = ("answer", "cases", "expected", "gold", "hidden_tests", "solution", "tests")
"""Keys of a reference under which answers and hidden tests are kept."""
MIN_LENGTH = 24
"""Shorter answers stand in prompts by chance, or as one of the choices that a question offers."""
_ANNOUNCED = r"\b(?:answer|solution|expected|gold|reference)\b[\"'*\s]*(?:is|:|=|->)[\"'*:\s]*"


def leaking(tasks: Sequence[Task]) -> str:
    """Say how the tasks' prompts give away what their references hold, or ''.

    One coincidence proves nothing: the secret must be announced as the answer, or stand in full if it is
    long, in at least half of the prompts and for two different secrets.
    """
    secrets = [(task, key, text) for task in tasks for key, text in _secrets(task)]
    for key in dict.fromkeys(key for _, key, _ in secrets):
        own = [(task, text) for task, of, text in secrets if of == key]
        for given, how in ((_announced, "is announced in"), (_verbatim, "stands in full in")):
            found = [(task, text) for task, text in own if given(text, _asked(task))]
            if len({text for _, text in found}) > 1 and 2 * len(found) >= len(own):
                return (
                    f"reference[{key!r}] {how} {len(found)} of {len(own)} prompts, such as {found[0][0].id}"
                )
    return ""


def _secrets(task: Task) -> list[tuple[str, str]]:
    found = [(key, task.reference[key]) for key in SECRET_KEYS if key in task.reference]
    return [
        (key, value if isinstance(value, str) else json.dumps(value, default=str)) for key, value in found
    ]


def _asked(task: Task) -> str:
    return "\n".join(message.content for message in task.prompt)


def _announced(secret: str, prompt: str) -> bool:
    pattern = _ANNOUNCED + re.escape(secret) + r"(?!\w)"
    return bool(secret.strip()) and re.search(pattern, prompt, re.IGNORECASE) is not None


def _verbatim(secret: str, prompt: str) -> bool:
    return len(secret) >= MIN_LENGTH and secret in prompt
