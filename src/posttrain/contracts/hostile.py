"""Answers that no verifier may reward or fall over: what policies write when they know nothing, or attack."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

WRONG_ANSWERS = ("", "I do not know", " ".join(map(str, range(200))), "%$ §", "[" * 200)
"""Answers that must not succeed: none, a refusal, a dump of candidates, garbage, hostile nesting."""

HOSTILE_ANSWERS: Mapping[str, str] = MappingProxyType({
    "white space": " \t\n\r\u2028 ",
    "NUL bytes": "\0" * 64,
    "a lone surrogate": "\ud800",
    "stacked accents": "a" + "\u0301" * 2_000,
    "right-to-left marks": "\u202e42\u202c",
    "a million letters": "x" * 1_000_000,
    "a million spaces and no end": " " * 1_000_000 + "!",
    "a hundred thousand lines": "\n" * 100_000,
    "a number of 100,000 digits": "9" * 100_000,
    "a huge exponent": "1e999999999",
    "not a number": "nan",
    "infinity": "inf",
    "JSON nested 100,000 deep": "[" * 100_000,
    "JSON objects nested 50,000 deep": '{"a":' * 50_000,
    "a wide JSON list": "[" + "0," * 200_000 + "0]",
    "a format string": "%s%s%n {0.__class__} {}",
    "twenty thousand answer tags": "<answer>" * 20_000,
    "ten thousand open boxes": "\\boxed{" * 10_000,
    "bait for back-tracking": "a" * 50_000 + "!",
    "code": "__import__('os')._exit(3)",
})  # fmt: skip
"""Name → answer, each a way in which parsers hang, crash, or let something pass."""
