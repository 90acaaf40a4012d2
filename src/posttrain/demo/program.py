"""The demo: warm a real model up, train it by RL on many domains at once, and show what it gained."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posttrain import assembly
from posttrain.assembly import Config, Evaluation, Parts
from posttrain.demo.table import DemoRow, demo_rows, holds
from posttrain.errors import RunFolderError
from posttrain.evaluate.program import evaluate, with_constants
from posttrain.measures.report import Scores, text_table
from posttrain.records.environment import peak_memory_bytes
from posttrain.train.interrupts import interruptible
from posttrain.train.program import INTERRUPTED, new_folder, new_run, run_steps, warm_up_into
from posttrain.train.progress import Progress

CONFIG = Path(__file__).with_name("demo.toml")
BASE_SHARE = 4
"""The base model answers at length and rarely rightly, so a quarter of the tasks place it."""


def run(overrides: Sequence[str], path: Path | None) -> int:
    """Run the demo into a folder; return 0 when it ran, 130 when it was interrupted."""
    config = assembly.read(CONFIG, overrides)
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunFolderError(f"{path}: holds something already. Choose a new or empty folder.")
    return asyncio.run(_run(config, new_folder(path, "demo")))


async def _run(config: Config, path: Path) -> int:
    started = time.perf_counter()
    _say(
        f"{config.model.source}: warm-up on {config.sft.steps} × {config.sft.demonstrations} gold answers, "
        f"then {config.run.steps} steps of RL over {len(config.domains)} domains.\n"
        "About 10 minutes on 2 cores with bfloat16 arithmetic, two to three times that without. "
        "Ctrl-C stops cleanly."
    )
    async with assembly.opened(config, str(CONFIG)) as parts:
        quarter = replace(config.evaluation, tasks=max(1, config.evaluation.tasks // BASE_SHARE))
        base = await evaluate(parts, "base", quarter, _say)
        if not await _warm_up(parts, path / "warm-up"):
            return INTERRUPTED
        warm = await evaluate(parts, "warm-up", config.evaluation, _say)
        # The RL run can be resumed on its own: it starts from the warm-up's adapter on disk.
        adapter = str((path / "warm-up" / "adapter").resolve())
        rl = replace(parts, config=replace(config, model=replace(config.model, adapter=adapter)))
        with new_run(rl, path / "rl", str(CONFIG), "train") as folder:
            if code := await run_steps(rl, folder):
                return code
        final = await with_constants(
            await evaluate(parts, "RL", config.evaluation, _say), parts, config.evaluation
        )
    rows = demo_rows(base, warm, final)
    _report(rows, [base, warm, final], path, config.evaluation, time.perf_counter() - started)
    return 0


async def _warm_up(parts: Parts, path: Path) -> bool:
    with new_run(parts, path, str(CONFIG), "sft") as folder, interruptible() as interrupted:
        with Progress("warm-up", parts.config.sft.steps) as progress:
            await warm_up_into(parts, folder, progress, interrupted)
        return not interrupted.is_set()


def _report(
    rows: Sequence[DemoRow], scores: Sequence[Scores], path: Path, evaluation: Evaluation, seconds: float
) -> None:
    claims = holds(rows)
    document = {
        "seconds": seconds,
        "peak_memory_bytes": peak_memory_bytes(),
        "rows": [row.as_json() for row in rows],
        "claims": claims,
        "attempts": {s.label: {name: d.by_task for name, d in s.domains.items()} for s in scores},
    }
    (path / "report.json").write_text(json.dumps(document, indent=1, default=list) + "\n", encoding="utf-8")
    _say(f"\nSuccess on {evaluation.tasks} held-out tasks a domain, {evaluation.attempts} attempts each:\n")
    _say(text_table(rows))
    _say("\nbest constant: what always giving the same answer would score, chosen on training tasks")
    for claim, true in claims.items():
        _say(f"{'yes' if true else 'NO '}  {claim}")
    _say(
        f"\n{seconds / 60:.1f} minutes, {peak_memory_bytes() / 2**30:.1f} GiB at most. "
        f"Everything is in {path}:\n"
        f"  {path}/rl/adapter      the trained LoRA adapter (PEFT layout)\n"
        f"  {path}/rl/groups       every attempt with its tokens, log-probabilities and verdict\n"
        f"  {path}/report.json     this table\n"
        "Next, with tasks of your own: docs/how-to/own_domain.md, then posttrain train YOUR_CONFIG.toml"
    )


def _say(text: str) -> None:
    print(text, flush=True)
