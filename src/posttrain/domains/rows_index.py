"""Every row looked at once: malformed ones gathered, the others dealt to split and level by number.

Held afterwards: 8 bytes a row. While looking, 10 bytes more.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy

from posttrain.config.wording import Place, meant
from posttrain.domains.rows_check import Fields, Row, understood
from posttrain.domains.rows_order import digest
from posttrain.domains.rows_read import Cells, Joined
from posttrain.errors import InputError, RowError
from posttrain.types import Message

MAX_ERRORS = 20
"""How many malformed rows are gathered before reading stops."""
MAX_LEVELS = 64
Level = int | str | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a pass over a table found: for each row the prompt's digest and the code of its level."""

    digests: array[int]
    codes: array[int]
    levels: tuple[Level, ...]
    columns: tuple[str, ...]

    @property
    def has_levels(self) -> bool:
        """Tell whether rows say their level."""
        return self.levels != (None,)


def look(table: Joined, fields: Fields, key: str) -> Found:
    """Return what all rows of a table hold.

    Raises RowError for a malformed row, InputError for several: up to 20 of them, each with file, row and
    field.
    """
    digests, codes, errors = array("Q"), array("H"), list[RowError]()
    levels: dict[Level, int] = {}
    columns: dict[str, None] = {}
    seen: dict[str, None] = {}
    for number, cells in enumerate(table.scan()):
        if not isinstance(cells, RowError):
            seen |= dict.fromkeys(cells)
        row = _looked_at(table, number, cells, fields)
        if isinstance(row, RowError):
            errors.append(row)
            if len(errors) == MAX_ERRORS:
                break
            continue
        digests.append(digest(words(row.prompt), key))
        codes.append(_code(levels, row.level, fields))
        columns |= dict.fromkeys(row.columns)
    if errors:
        _check_seen(seen, fields, table)
        raise _gathered(errors, table, number + 1)
    return Found(digests, codes, tuple(levels), tuple(columns))


def row_of(table: Joined, number: int, fields: Fields) -> Row:
    """Return one row, understood; raise RowError where it is malformed."""
    return understood(table.row(number), fields, _wrong(table, number))


def words(prompt: Sequence[Message]) -> str:
    """Return a prompt as one text, different for different prompts."""
    return repr([(message.role, message.content) for message in prompt])


def dealt(found: Found, order: Sequence[Level], chosen: Callable[[int], bool]) -> tuple[array[int], ...]:
    """Return for each level of `order` the numbers of its rows whose digest is `chosen`."""
    parts = tuple(array("Q") for _ in order)
    place = {found.levels.index(level): n for n, level in enumerate(order) if level in found.levels}
    for number, (made, code) in enumerate(zip(found.digests, found.codes, strict=True)):
        if chosen(made):
            parts[place[code]].append(number)
    return parts


def check_apart(
    train: tuple[Joined, Found], held_out: tuple[Joined, Found], fields: Fields, place: Place
) -> None:
    """Raise InputError where a held-out row asks what a training row asks."""
    (own, ours), (other, theirs) = train, held_out
    suspects = numpy.isin(numpy.array(theirs.digests), numpy.array(ours.digests)).nonzero()[0]
    first = (
        {made: number for number, made in reversed(list(enumerate(ours.digests)))} if len(suspects) else {}
    )
    pairs = [(int(number), first[theirs.digests[int(number)]]) for number in suspects]
    # Digests of 64 bits agree by chance once in many millions of rows, so the prompts decide.
    same = [
        (number, twin)
        for number, twin in pairs
        if row_of(other, number, fields).prompt == row_of(own, twin, fields).prompt
    ]
    if same:
        shown = [
            f"  {_where(other, n)} asks the same as {_where(own, twin)}" for n, twin in same[:MAX_ERRORS]
        ]
        raise InputError(
            f"{place.source or 'rows'}: {len(same)} held-out rows are training rows too, so the evaluation "
            "would measure memory. Remove them from one side:\n" + "\n".join(shown)
        )


def _looked_at(table: Joined, number: int, cells: Cells | RowError, fields: Fields) -> Row | RowError:
    if isinstance(cells, RowError):
        return cells
    try:
        return understood(cells, fields, _wrong(table, number))
    except RowError as error:
        return error


def _wrong(table: Joined, number: int) -> partial[RowError]:
    place, inside = table.find(number)
    return partial(RowError, path=table.tables[place].name, row=inside + 1)


def _where(table: Joined, number: int) -> str:
    place, inside = table.find(number)
    return f"{table.tables[place].name}, row {inside + 1}"


def _code(levels: dict[Level, int], level: Level, fields: Fields) -> int:
    code = levels.setdefault(level, len(levels))
    if code >= MAX_LEVELS:
        raise InputError(
            f"column {fields.level!r} holds more than {MAX_LEVELS} levels. Name a column of few values."
        )
    return code


def _check_seen(seen: Mapping[str, None], fields: Fields, table: Joined) -> None:
    """Raise InputError where no row at all has a column: a misspelt name, not malformed rows."""
    needed = (fields.prompt, fields.level, fields.demonstration, *(need.path for need in fields.needed))
    for path in filter(None, needed):
        if seen and path not in seen and path.partition(".")[0] not in seen:
            hint = meant(path, seen, "They have")
            raise InputError(f"{table.name}: the rows have no column {path!r}. {hint}")


def _gathered(errors: Sequence[RowError], table: Joined, num_read: int) -> InputError:
    if len(errors) == 1:
        return errors[0]
    more = f" of the first {num_read:,}; reading stopped there" if len(errors) == MAX_ERRORS else ""
    lines = "\n".join(f"  {error}" for error in errors)
    return InputError(
        f"{len(errors)} malformed rows{more} ({len(table):,} in all). Mend or remove them:\n{lines}"
    )
