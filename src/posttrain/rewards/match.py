"""Exact matching of short answers: find the final answer in a text, compare it with the gold one.

Apart from domains, because every verifier of short answers needs the same strict, cheap comparison.
Nothing here executes or parses the policy's text as code.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_ANNOUNCED = re.compile(r"\banswer(?:\s+is)?\s*(?::\*\*|:|\bis\b)\s*(?=\S)", re.IGNORECASE)
# No leading zeros: '007' is a spelling of its own where answers are strings of digits.
_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,2}(?:,[0-9]{3})+|[1-9][0-9]*)(?:\.[0-9]+)?")
# Bounds the cost of the patterns on hostile text; no answer of ours stands further from the end.
_MAX_CHARACTERS = 20_000
_WRAPPERS = (("$$", "$$"), ("**", "**"), ("$", "$"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"))


def extract_answer(text: str, num_lines: int = 1) -> str:
    r"""Return the final answer that a text gives, or '' if it gives none.

    In this order: the last `\boxed{…}`, the last `<answer>…</answer>`, what follows the last
    "answer is" or "answer:" on its line, else the last `num_lines` lines that are not blank
    (a grid's answer has several). Of a very long text only the last 20,000 characters count.

    >>> extract_answer("7 + 8 makes 15, so the answer is 15.")
    '15.'
    >>> extract_answer("\\boxed{\\frac{1}{2}}")
    '\\frac{1}{2}'
    """
    text = text[-_MAX_CHARACTERS:]
    boxed = _last_boxed(text)
    if boxed is not None:
        return boxed.strip()
    tagged = _last_tagged(text)
    if tagged is not None:
        return tagged.strip()
    if announced := list(_ANNOUNCED.finditer(text)):
        lines = text[announced[-1].end() :].strip().splitlines()
        return "\n".join(lines[:num_lines]).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-num_lines:]).strip()


def normalise(answer: str) -> str:
    """Return the answer without outer quotes, $, ` or **, trailing period and spare white space.

    Lines stay apart; letter case stays, since some answers are about it.

    >>> normalise('**Yes**. ')
    'Yes'
    """
    lines = (" ".join(line.split()) for line in answer.strip().splitlines())
    text = "\n".join(line for line in lines if line)
    while (shorter := _unwrap(text)) != text:
        text = shorter
    return text


def number(text: str) -> Decimal | None:
    """Return the exact value of a plain decimal number ('-1,000', '+3', '3.0'), else None."""
    return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def exact(answer: str, gold: str) -> float:
    """Return 1.0 if the answer equals the gold one after `normalise`, else 0.0.

    Plain decimal numbers are compared by value, exactly: '3.0' equals '3', '1,000' equals '1000'.

    >>> exact("+3.0", "3"), exact("3.01", "3")
    (1.0, 0.0)
    """
    ours, theirs = normalise(answer), normalise(gold)
    if ours == theirs:
        return float(bool(theirs))
    value = number(theirs)
    return float(value is not None and number(ours) == value)


def _unwrap(text: str) -> str:
    """Strip one trailing period or one pair of wrappers."""
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    for left, right in _WRAPPERS:
        inner = text[len(left) : len(text) - len(right)]
        # A wrapper that occurs inside as well belongs to the answer: 'a' and 'b'.
        if inner and text == left + inner + right and left not in inner and right not in inner:
            return inner.strip()
    return text


def _last_tagged(text: str) -> str | None:
    """Return what stands in the last <answer>…</answer>, in time linear in the text; None without one."""
    tags = list(_TAG.finditer(text))
    for opening, closing in reversed(list(pairwise(tags))):
        if not opening[1] and closing[1]:
            return text[opening.end() : closing.start()]
    return None


def _last_boxed(text: str) -> str | None:
    """Return what stands in the last boxed{…}, braces balanced; None if it is not closed."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 1, start + len("\\boxed{")
    for end in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin:end]
    return None
