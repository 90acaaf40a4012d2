"""Rows of one's own: a file or data set with a prompt column, and reward functions that judge attempts.

Apart in pieces: `rows_read` and `rows_open` get rows, `rows_check` and `rows_index` look at them once,
`rows_order` shuffles, `rows_reward` and `rows_choose` judge.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from posttrain.config.wording import Place
from posttrain.domains.rows_check import Fields, Row
from posttrain.domains.rows_choose import BUILT_IN, Spec, check_columns, scorers
from posttrain.domains.rows_index import Found, Level, check_apart, dealt, look, row_of
from posttrain.domains.rows_open import open_tables
from posttrain.domains.rows_order import shuffled
from posttrain.domains.rows_read import Joined
from posttrain.domains.rows_reward import Attempt, Scorer, combined
from posttrain.protocols import Sandbox
from posttrain.types import Domain, Message, Reward, Split, Task, Trajectory

NOWHERE = Place("", "")


def rows(
    data: str | tuple[str, ...],
    *,
    reward: Spec | tuple[Spec, ...],
    name: str = "",
    prompt: str = "prompt",
    demonstration: str = "",
    level_column: str = "",
    levels: tuple[int | str, ...] = (),
    columns: tuple[str, ...] = (),
    eval: str | tuple[str, ...] = (),
    eval_share: float = 0.1,
    split_seed: int = 0,
    subset: str = "",
    split: str = "train",
    eval_split: str = "",
    ground_truth: str = "reward_model.ground_truth",
    shuffle: bool = True,
    threads: bool = False,
    deterministic: bool = True,
    success: float = 1.0,
    place: Place = NOWHERE,
) -> Domain:
    """Return a domain of the rows in `data`, judged by one or several reward functions.

    `data`, `eval`: JSON Lines, Parquet, the folder of a saved Hugging Face data set or the id of one on the
    hub (with `subset`, `split`, `eval_split`). Without `eval` and `eval_split`, `eval_share` of all prompts
    are held out, chosen by a hash of the prompt and `split_seed`: rows appended later move no other row, and
    repeated prompts stay on one side. `reward` is described in docs/how-to/rows.md.
    Raises ConfigError for settings, RowError or InputError for rows.
    """
    chosen = scorers(reward, truth=ground_truth, threads=threads, place=place.at("reward"))
    needs = tuple(need for scorer in chosen for need in scorer.needs)
    fields = Fields(prompt, level_column, demonstration or _gold_column(reward), columns, needs)
    read = partial(_Part.of, fields=fields, seed=split_seed, subset=subset)
    train, held_out = read(data, split=split, place=place.at("data")), None
    check_columns(chosen, train.found.columns, place.at("reward"))
    if eval or eval_split:
        held_out = read(eval or data, split=eval_split or split, place=place.at("eval"))
    label = name or Path(data if isinstance(data, str) else data[0]).stem
    source = _Source.of(label, fields, shuffle, levels, eval_share, train, held_out, place)
    return _domain(source, chosen, success, deterministic)


def _domain(source: _Source, chosen: tuple[Scorer, ...], success: float, deterministic: bool) -> Domain:
    async def verify(trajectory: Trajectory, sandbox: Sandbox, files: Mapping[str, bytes]) -> Reward:
        return await combined(chosen, Attempt(trajectory, sandbox, files))

    return Domain(
        source.name, source.size, source.task, verify,
        levels=len(source.order), success=success, deterministic=deterministic,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Part:
    """A table and what its rows hold."""

    table: Joined
    found: Found

    @classmethod
    def of(
        cls, sources: str | Sequence[str], fields: Fields, seed: int, *, split: str, subset: str, place: Place
    ) -> _Part:
        table = open_tables(sources, fields.read, split=split, subset=subset, place=place)
        return cls(table, look(table, fields, f"rows/{seed}"))


@dataclass(frozen=True, slots=True)
class _Source:
    """The tasks of a domain: for each split its table and, level by level, the numbers of its rows."""

    name: str
    fields: Fields
    shuffle: bool
    order: tuple[Level, ...]
    splits: Mapping[Split, tuple[Joined, tuple[array[int], ...]]]
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls, name: str, fields: Fields, shuffle: bool, levels: Sequence[int | str], share: float,
        train: _Part, held_out: _Part | None, place: Place,
    ) -> _Source:  # fmt: skip
        if held_out is not None:
            check_apart((train.table, train.found), (held_out.table, held_out.found), fields, place)
        order = _level_order(train, held_out, levels, place.at("levels"))
        splits = _splits(train, held_out, order, share, place.at("eval_share"))
        return cls(name, fields, shuffle, order, splits, _all_columns(train, held_out))

    def size(self, split: Split, level: int) -> int:
        """Return how many rows a split has at a level."""
        return len(self.splits[split][1][level])

    def task(self, split: Split, level: int, index: int) -> Task:
        """Return a row as a task; after all rows of the level they come again, in another order."""
        table, parts = self.splits[split]
        numbers = parts[level]
        epoch, place = divmod(index, len(numbers))
        if self.shuffle:
            place = shuffled(place, len(numbers), f"{self.name}/{split}/{level}/{epoch}")
        number = numbers[place]
        return self._made(row_of(table, number, self.fields), split, level, table.label(number))

    def _made(self, row: Row, split: Split, level: int, label: str) -> Task:
        reference: dict[str, Any] = {
            # A cell that only other rows have is empty, as in a table.
            "columns": {**dict.fromkeys(self.columns), **row.columns},
            "is_chat": row.is_chat,
        }
        if row.answer is not None:
            reference["answer"] = row.answer
        prompt: tuple[Message, ...] = row.prompt
        return Task(f"{self.name}/{split}/{label}", self.name, level, prompt, reference)


def _gold_column(reward: Spec | Sequence[Spec]) -> str:
    """Return the column that holds gold answers because the only reward compares with it, or ''."""
    specs = [reward] if isinstance(reward, str) or not isinstance(reward, Sequence) else list(reward)
    spec = specs[0] if len(specs) == 1 else ""
    use = spec.get("use") if isinstance(spec, Mapping) else spec
    short, _, column = use.partition(":") if isinstance(use, str) else ("", "", "")
    return column if short in BUILT_IN and short != "fields" else ""


def _level_order(
    train: _Part, held_out: _Part | None, asked: Sequence[int | str], place: Place
) -> tuple[Level, ...]:
    """Return the levels from easy to hard: as asked for, or numbers in their order."""
    found = dict.fromkeys((*train.found.levels, *(held_out.found.levels if held_out else ())))
    if asked and not train.found.has_levels:
        raise place.error("is given, but no column of levels", "Name it with `level_column`")
    if asked:
        unknown = [level for level in found if level not in asked]
        if unknown:
            shown = ", ".join(map(repr, unknown[:5]))
            raise place.error(f"some rows are at level {shown}, which is not listed", "List every level")
        return tuple(asked)
    if len(found) > 1 and not all(isinstance(level, int) for level in found):
        shown = ", ".join(repr(level) for level in found)
        raise place.error(f"is missing; the levels are words: {shown}", "List them from easy to hard")
    return tuple(sorted(found, key=lambda level: level if isinstance(level, int) else 0))


def _splits(
    train: _Part, held_out: _Part | None, order: Sequence[Level], share: float, place: Place
) -> Mapping[Split, tuple[Joined, tuple[array[int], ...]]]:
    if held_out is not None:
        return {
            "train": (train.table, dealt(train.found, order, lambda digest: True)),
            "eval": (held_out.table, dealt(held_out.found, order, lambda digest: True)),
        }
    if not 0 < share < 1:
        raise place.error(f"{share} is not between 0 and 1", "Or give held-out rows with `eval`")
    bound = share * 2**64
    parts = dealt(train.found, order, lambda digest: digest >= bound)
    rest = dealt(train.found, order, lambda digest: digest < bound)
    if not any(map(len, parts)) or not any(map(len, rest)):
        side = "training" if any(map(len, rest)) else "evaluation"
        hint = "Change it, or give held-out rows with `eval`"
        raise place.error(f"{share} leaves no row for {side} ({len(train.table)} rows)", hint)
    return {"train": (train.table, parts), "eval": (train.table, rest)}


def _all_columns(train: _Part, held_out: _Part | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*train.found.columns, *(held_out.found.columns if held_out else ()))))
