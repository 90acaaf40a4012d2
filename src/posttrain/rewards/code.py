"""What an attempt at a programming task earns: its code taken out of the answer, its verdicts weighed.

Every status of the sandbox has a meaning in one literal table, and every number is a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from posttrain.errors import RunFailed
from posttrain.protocols import CaseResult, Status
from posttrain.types import Reward

Meaning = Literal["passed", "failed", "compile_error", "timeout", "tampering", "none"]

MEANINGS: Mapping[Status, Meaning] = MappingProxyType(
    {
        "OK": "passed",
        "WRONG": "failed",
        "RUNTIME_ERROR": "failed",
        "MEMORY": "failed",
        "OUTPUT": "failed",
        "DISK": "failed",
        "COMPILE_ERROR": "compile_error",
        "CPU_TIMEOUT": "timeout",
        "WALL_TIMEOUT": "timeout",
        "SECURITY": "tampering",
        "TAMPERED": "tampering",
        "INFRA": "none",
    }
)
"""What each verdict on a case says of the candidate; 'none' is no verdict."""

FLAGS: Mapping[Status, str] = MappingProxyType({"SECURITY": "security", "TAMPERED": "tampered"})
"""Attempts to tamper that the sandbox saw, and the flags that they leave on a reward."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_MAX_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class CodeReward:
    """The settings of a code reward; where nothing else holds, it is the passed share of hidden tests.

    `compile_error`: the code does not compile, or there is none. `timeout`: any hidden test timed out, or
    all of them, by `timeout_when`; "never" counts time-outs as tests not passed. `tampering`: the
    sandbox saw an attempt to tamper; the reward carries a flag too.
    """

    compile_error: float = -1.0
    timeout: float = -0.5
    timeout_when: Literal["any", "all", "never"] = "any"
    tampering: float = 0.0


def extract_code(answer: str) -> str:
    r"""Return the code of the answer's last fenced block, or all of it where there is none.

    A fence is closed by one of the same kind and at least its length, as in Markdown; a last block that
    is not closed runs to the end. Of a very long answer only the last 200,000 characters count.

    >>> extract_code("First:\n```python\nx = 1\n```\nBetter:\n```\nx = 2\n```\nDone.")
    'x = 2\n'
    >>> extract_code("x = 3")
    'x = 3'
    """
    answer = answer.replace("\r\n", "\n")[-_MAX_CHARACTERS:]
    code, opened = answer, None
    for fence in _FENCE.finditer(answer):
        if opened is None:
            if not (fence[1][0] == "`" and "`" in fence[2]):  # ```x``` on one line is inline code
                opened = fence
        elif fence[1][0] == opened[1][0] and len(fence[1]) >= len(opened[1]) and not fence[2].strip():
            code, opened = answer[opened.end() + 1 : fence.start()], None
    return answer[opened.end() + 1 :] if opened is not None else code


def weighed(
    visible: Sequence[CaseResult], hidden: Sequence[CaseResult], scheme: CodeReward = CodeReward()
) -> Reward:
    """Return the reward for verdicts on visible and hidden cases.

    Parts: `visible` and `hidden` (passed shares), `compiled` (0 or 1). Raises RunFailed where any case
    has no verdict: the attempt is then unjudged.
    """
    cases = [*visible, *hidden]
    lost = next((case for case in cases if MEANINGS[case.status] == "none"), None)
    if lost is not None:
        raise RunFailed(f"the sandbox has no verdict: {lost.detail or 'INFRA'}")
    compiled = not any(MEANINGS[case.status] == "compile_error" for case in cases)
    flags = tuple(flag for status, flag in FLAGS.items() if any(case.status == status for case in cases))
    parts = {"visible": passed_share(visible), "hidden": passed_share(hidden), "compiled": float(compiled)}
    return Reward(_value(hidden, compiled, bool(flags), scheme), parts, flags)


def passed_share(cases: Sequence[CaseResult]) -> float:
    """Return the share of cases that passed; 0.0 without cases."""
    return sum(case.status == "OK" for case in cases) / max(1, len(cases))


def no_code(scheme: CodeReward = CodeReward()) -> Reward:
    """Return the reward of an answer without any code: that of code that does not compile."""
    return Reward(scheme.compile_error, {"visible": 0.0, "hidden": 0.0, "compiled": 0.0})


def _value(hidden: Sequence[CaseResult], compiled: bool, tampered: bool, scheme: CodeReward) -> float:
    if tampered:
        return scheme.tampering
    if not compiled:
        return scheme.compile_error
    late = [MEANINGS[case.status] == "timeout" for case in hidden]
    if (scheme.timeout_when == "any" and any(late)) or (scheme.timeout_when == "all" and late and all(late)):
        return scheme.timeout
    return passed_share(hidden)
