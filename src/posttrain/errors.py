"""The error tree: what a user can get wrong, and what can fail around a run.

PosttrainError
├── InputError            the user's input is wrong: exit code 2
│   ├── ConfigError       a key or value of a configuration
│   ├── RowError          a row of a user's file
│   └── RunFolderError    a run folder that cannot be read or written as asked
├── CapacityError         the work does not fit the machine or the model's context
└── RunFailed             the run stopped with less done than asked: exit code 1
"""

from __future__ import annotations

from pathlib import Path


class PosttrainError(Exception):
    """Everything the project raises on purpose; its text is fit for a user to read."""

    exit_code = 1


class InputError(PosttrainError):
    """The input is wrong; the text names it, what was expected and what to do."""

    exit_code = 2


class ConfigError(InputError):
    """A configuration key or value is wrong."""

    def __init__(self, problem: str, *, key: str = "", source: str | Path = "", hint: str = "") -> None:
        where = ": ".join(str(part) for part in (source, key) if str(part))
        text = f"{where}: {problem}" if where else problem
        super().__init__(f"{text}. {hint}" if hint else text)
        self.key, self.hint = key, hint


class RowError(InputError):
    """A row of a data file is wrong."""

    def __init__(self, problem: str, *, path: str | Path, row: int, field: str = "", hint: str = "") -> None:
        field_text = f", field {field!r}" if field else ""
        super().__init__(f"{path}, row {row}{field_text}: {problem}" + (f". {hint}" if hint else ""))


class RunFolderError(InputError):
    """A run folder cannot be read or written as asked."""


class CapacityError(InputError):
    """The work does not fit: memory budget, context length, slots."""


class RunFailed(PosttrainError):
    """The run did less than asked; what was done is saved."""


def boundary(error: BaseException) -> PosttrainError | None:
    """Classify a foreign failure once: give the project's error for it, or None if unknown."""
    if isinstance(error, PosttrainError):
        return error
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return CapacityError(
            f"out of memory ({error}). Lower learner.token_budget, engine.slots or sampling.max_tokens."
        )
    if isinstance(error, PermissionError | IsADirectoryError | NotADirectoryError):
        return InputError(f"{error.filename}: {error.strerror}. Choose a path that can be read and written.")
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return InputError(f"{error.filename}: no such file or folder. Check the path.")
    if isinstance(error, OSError) and error.errno == 28:
        return RunFailed(f"the disk is full ({error.filename}). Free space, then continue with --resume.")
    return None
