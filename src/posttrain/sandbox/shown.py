"""A program's words, made fit to be shown: they reach logs, terminals, files and prompts."""

from __future__ import annotations


def shown(text: str) -> str:
    """Return text that any encoding and terminal takes.

    What moves a cursor, turns the direction of writing or is no character at all is spelt out.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else _spelt(letter) for letter in text)


def _spelt(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
