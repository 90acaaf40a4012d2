"""The `eval` command: one policy on held-out tasks, or two compared on the same ones."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from posttrain import assembly
from posttrain.assembly import Config, Parts
from posttrain.errors import InputError
from posttrain.evaluate.program import evaluate, with_constants
from posttrain.measures.report import Scores, compare, summarise, text_table
from posttrain.models.adapter import load_adapter, read_lora
from posttrain.models.lora import owned
from posttrain.types import JSON

BASE = "base"


def run(
    path: Path,
    overrides: Sequence[str],
    adapter: Path | None,
    against: str | None,
    out: Path | None,
    as_json: bool,
) -> str:
    """Return the report as text (or JSON); also write the JSON to `out` if given."""
    if against is not None and adapter is None:
        raise InputError("--against compares two policies, and --adapter names the other. Give --adapter.")
    config = assembly.read(path, overrides, training=False)
    if adapter is not None:
        # The model takes the adapter's shape, whatever the config would train.
        config = replace(config, model=replace(config.model, lora=read_lora(adapter)))
    report = asyncio.run(_report(config, str(path), adapter, against))
    document = json.dumps(report.as_json(), indent=2)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(document + "\n", encoding="utf-8")
    return document if as_json else report.as_text()


class Report:
    """The scores of one policy, and of the one it is compared with."""

    __slots__ = ("base", "scores")

    def __init__(self, scores: Scores, base: Scores | None) -> None:
        self.scores, self.base = scores, base

    def as_json(self) -> dict[str, JSON]:
        """Return all rows as plain JSON."""
        document: dict[str, JSON] = {
            "label": self.scores.label,
            "domains": [row.as_json() for row in summarise(self.scores)],
        }
        if self.base is not None:
            document["against"] = self.base.label
            document["comparison"] = [row.as_json() for row in compare(self.base, self.scores)]
        return document

    def as_text(self) -> str:
        """Return the tables with a line on how to read them."""
        parts = [f"{self.scores.label}: success on held-out tasks, 95 % intervals clustered by task"]
        parts.append(text_table(summarise(self.scores)))
        if self.base is not None:
            parts.append(f"\n{self.scores.label} (other) against {self.base.label} (base), paired by task")
            parts.append(text_table(compare(self.base, self.scores)))
        parts.append(
            "constant: what the best gold answer, always given, would score; chosen on training tasks"
        )
        return "\n".join(parts)


async def _report(config: Config, source: str, adapter: Path | None, against: str | None) -> Report:
    async with assembly.opened(config, source) as parts:
        base = None
        if against is not None:
            await _use(parts, None if against == BASE else Path(against))
            base = await evaluate(parts, against, config.evaluation, _say)
        if adapter is not None:
            await _use(parts, adapter)
        label = str(adapter) if adapter is not None else config.model.adapter or config.model.source
        scores = await evaluate(parts, label, config.evaluation, _say)
        return Report(await with_constants(scores, parts, config.evaluation, _say), base)


async def _use(parts: Parts, adapter: Path | None) -> None:
    """Put an adapter into the engine; None stands for the base model, whose adapter adds nothing."""
    module = parts.model.module
    if adapter is not None:
        load_adapter(module, adapter)
    weights = {name: parameter.detach().clone() for name, parameter in owned(module)}
    if adapter is None:
        weights = {n: w.zero_() if n.endswith("lora_B") else w for n, w in weights.items()}
    await parts.engine.load(weights, parts.engine.version + 1)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
