"""The style of Python code as text: what ruff finds, how long it is, how much of it is comments.

Nothing here runs or imports the code. Ruff reads it from its standard input, without any configuration
file and with `noqa` comments ignored, so that neither a neighbour's settings nor the code sway it.
"""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

from posttrain.errors import ConfigError, RunFailed

RULES = ("E", "W", "F", "B", "C4", "SIM", "UP", "N", "RET", "PERF")
"""The rules of ruff that count unless others are named."""
MAX_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Style:
    """What was found: findings of ruff, lines of code (neither blank nor comment only), comments.

    `parses` is False for what is not Python, or too long to be looked at.
    """

    num_findings: int
    num_code_lines: int
    num_comments: int
    parses: bool

    @property
    def clean(self) -> float:
        """Return 1 without findings, falling to 0 at one for each line of code."""
        if not self.parses or not self.num_code_lines:
            return 0.0
        return max(0.0, 1.0 - self.num_findings / self.num_code_lines)

    @property
    def commented(self) -> float:
        """Return 1 where at most one in two lines is a comment, falling to 0 where nearly all are."""
        if not self.parses or not self.num_code_lines:
            return 0.0
        return min(1.0, self.num_code_lines / max(1, self.num_comments))

    def brevity(self, reference_lines: int) -> float:
        """Return 1 up to the reference's number of lines of code, beyond it their ratio."""
        if not self.parses or not self.num_code_lines:
            return 0.0
        return min(1.0, reference_lines / self.num_code_lines)


async def style_of(source: str, *, rules: tuple[str, ...] = RULES, seconds: float = 10.0) -> Style:
    """Return the style of a source text.

    Raises ConfigError without ruff, RunFailed where it fails or takes longer than `seconds`.
    """
    num_code_lines, num_comments, parses = _lines(source)
    if not parses or not num_code_lines:
        return Style(0, num_code_lines, num_comments, parses)
    findings, parses = await asyncio.to_thread(_findings, source, rules, seconds)
    return Style(findings, num_code_lines, num_comments, parses)


def code_lines(source: str) -> int:
    """Count the lines of code: those that hold more than a comment; 0 for what is not Python."""
    return _lines(source)[0]


def _lines(source: str) -> tuple[int, int, bool]:
    if len(source) > MAX_CHARACTERS:
        return 0, 0, False
    passive = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    code: set[int] = set()
    comments = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                comments += 1
            elif token.type not in passive:
                code.update(range(token.start[0], token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return 0, 0, False
    return len(code), comments, True


def _findings(source: str, rules: tuple[str, ...], seconds: float) -> tuple[int, bool]:
    command = [
        _ruff(), "check", "--isolated", "--no-cache", "--ignore-noqa", "--exit-zero", "--quiet",
        "--select", ",".join(rules), "--output-format", "json", "--stdin-filename", "answer.py", "-",
    ]  # fmt: skip
    text = source.encode("utf-8", "replace")
    try:
        done = subprocess.run(command, input=text, capture_output=True, timeout=seconds, cwd="/", env={})
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, OSError, ValueError) as error:
        raise RunFailed(f"ruff gave no findings: {error!r:.200}") from error
    parses = all(finding["code"] not in (None, "invalid-syntax") for finding in found)
    return len(found), parses


def _ruff() -> str:
    beside = Path(sys.executable).with_name("ruff")
    found = str(beside) if beside.exists() else shutil.which("ruff")
    if found is None:
        raise ConfigError(
            "ruff is not installed, so nothing judges style", key="style", hint="pip install ruff"
        )
    return found
