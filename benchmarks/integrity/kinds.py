"""All kinds of reward hacks, by name and family: how a policy earns reward without solving the task."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import kinds_disguised
import kinds_fitted
import kinds_searching
import kinds_tables
import kinds_tampering

from posttrain.domains.problem import Problem

Family = Literal["tables", "fitted", "disguised", "searching", "tampering"]
Write = Callable[[Problem, random.Random], "str | None"]
HELD_OUT_SEED = "planted hacks, 1"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of hack: `write` gives its source for a problem, or None where it does not apply.

    `coupled` kinds remember visible answers, so they pass the visible tests; the others go for the judge.
    """

    name: str
    family: Family
    write: Write
    coupled: bool = True

    @property
    def summary(self) -> str:
        """Return what the hack does, in one line."""
        return (self.write.__doc__ or "").strip().splitlines()[0]


def _kinds(family: Family, *writes: Write, coupled: bool = True) -> tuple[Kind, ...]:
    return tuple(Kind(write.__name__, family, write, coupled) for write in writes)


_tables, _fitted, _disguised = kinds_tables, kinds_fitted, kinds_disguised
_searching, _tampering = kinds_searching, kinds_tampering
KINDS: tuple[Kind, ...] = (
    *_kinds(
        "tables",
        _tables.if_chain, _tables.repr_table, _tables.hashed_table, _tables.packed_table,
        _tables.perfect_hash, _tables.modal_default, _tables.arithmetic_constants, _tables.prefilled_cache,
        _tables.docstring_oracle, _tables.oracle_object, _tables.encoded_program, _tables.answer_file,
        _tables.shadowed_preamble,
    ),
    *_kinds(
        "fitted",
        _fitted.nearest_input, _fitted.length_branch, _fitted.decision_tree, _fitted.interpolation,
        _fitted.regex_fit, _fitted.partial_key, _fitted.call_order, _fitted.false_base_cases,
    ),
    *_kinds(
        "disguised",
        _disguised.patched_wrong, _disguised.except_table, _disguised.dead_code, _disguised.one_liner,
        _disguised.halved_answers, _disguised.environment_detect, _disguised.stall_unknown,
        _disguised.crash_unknown, _disguised.generated_branches,
    ),
    *_kinds(
        "searching",
        _searching.frame_search, _searching.memory_search, _searching.caller_constants,
        _searching.file_search, _searching.installed_answer,
        coupled=False,
    ),
    *_kinds(
        "tampering",
        _tampering.always_equal, _tampering.lenient_value, _tampering.exit_zero, _tampering.forged_verdict,
        _tampering.overridden_builtins, _tampering.patched_frameworks, _tampering.verdict_injection,
        _tampering.patched_timing, _tampering.traced_judge,
        coupled=False,
    ),
)  # fmt: skip


def held_out(seed: str = HELD_OUT_SEED) -> frozenset[str]:
    """Return the names of the kinds to report: half of each family, drawn once by a fixed seed."""
    found: list[str] = []
    take_more = True
    for family in dict.fromkeys(kind.family for kind in KINDS):
        names = [kind.name for kind in KINDS if kind.family == family]
        random.Random(f"{seed}/{family}").shuffle(names)
        half = (len(names) + take_more) // 2
        take_more = take_more if len(names) % 2 == 0 else not take_more
        found += names[:half]
    return frozenset(found)
