"""Measure the learner: trained tokens per second and peak memory, with and without its two savings.

Ours computes a group's prompt once and pads no linear layer; beside it stand our own layout of full rows
(packed, nothing shared) and plain transformers and PEFT on padded rows. All take turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import geometric_mean

from transformers import AutoConfig, PreTrainedConfig

from posttrain.bench.child import Child, Program
from posttrain.bench.loop import Place
from posttrain.bench.overlay import peer_script
from posttrain.bench.result import Result, Setting, compare
from posttrain.bench.updates import Shape, UpdateSettings
from posttrain.bench.waste import Lengths, Waste, measure
from posttrain.errors import ConfigError, RunFailed

OURS, FULL, PADDED = "ours", "ours, full rows", "transformers + PEFT, padded rows"
UPDATES = "posttrain.bench.updates"
GIB = 2**30


SHAPES = (
    Shape(64, 32, 8, groups=4),
    Shape(256, 128, 8, groups=1),
    Shape(1024, 256, 8, groups=1),
    Shape(128, 2048, 4, groups=1),
)


@dataclass(frozen=True, slots=True)
class Study:
    """Which shapes are trained, and how."""

    shapes: tuple[Shape, ...] = SHAPES
    rank: int = 16
    token_budget: int = 2048
    checkpointing: bool = False
    warmups: int = 1
    repetitions: int = 3


QUICK = Study(shapes=(Shape(6, 3, 2, groups=2), Shape(4, 8, 2, groups=1)), token_budget=64, repetitions=1)
"""For tests: the same measurement in seconds, meaningless as a figure."""


@dataclass(frozen=True, slots=True)
class _Facts:
    num_trainable: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Update:
    """What one optimizer step took; `matmul_flops` is the machine's speed right after it (ours alone)."""

    seconds: float
    cpu_seconds: float
    num_tokens: int
    matmul_flops: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Our update and the other side's right after it."""

    ours: Update
    other: Update


@dataclass(frozen=True, slots=True)
class Row:
    """One shape's turns with each other side, and the operations of the least work that trains it."""

    shape: Shape
    turns: Mapping[str, tuple[Turn, ...]]
    flops: float

    def updates(self, side: str) -> list[Update]:
        """Return all updates of one side."""
        if side == OURS:
            return [turn.ours for turns in self.turns.values() for turn in turns]
        return [turn.other for turn in self.turns[side]]

    def speed(self, side: str) -> float:
        """Return trained (scored) tokens per second: the median."""
        return statistics.median(update.num_tokens / update.seconds for update in self.updates(side))

    def ratio(self, side: str) -> float:
        """Return how many times faster ours is than `side`: the median over turns."""
        return statistics.median(turn.other.seconds / turn.ours.seconds for turn in self.turns[side])

    def roofline(self) -> float:
        """Return the tokens per second of the least work's matrix products at the machine's peak."""
        peak = statistics.median(update.matmul_flops for update in self.updates(OURS))
        return self.shape.num_scored * peak / self.flops

    def peak_bytes(self, side: str) -> int:
        return max(update.peak_bytes for update in self.updates(side))


@dataclass(frozen=True, slots=True)
class Table:
    """All shapes, and the padding of log-normal lengths."""

    place: Place
    study: Study
    rows: tuple[Row, ...]
    waste: Waste

    def result(self) -> Result:
        """Return geometric means over the shapes, each shape's own figures beside them."""
        turns = zip(*(row.turns[PADDED] for row in self.rows), strict=True)
        pairs = [(_speed(t.ours for t in turn), _speed(t.other for t in turn)) for turn in turns]
        return compare(
            [ours for ours, _ in pairs],
            [other for _, other in pairs],
            unit="trained tokens/s (geometric mean over shapes)",
            settings=self._settings(),
            peers={
                PADDED: geometric_mean(row.speed(PADDED) for row in self.rows),
                FULL: geometric_mean(row.speed(FULL) for row in self.rows),
                "matrix-multiply roofline": geometric_mean(row.roofline() for row in self.rows),
            },
        )

    def text(self) -> str:
        """Return one block for each shape, and the padding."""
        head = f"{'':34} {'tokens/s':>9} {'roofline':>9} {'CPU s':>8} {'peak GiB':>9} {'ours is':>8}"
        lines = [head]
        for row in self.rows:
            lines.append(_named(row.shape))
            lines += [_line(row, side) for side in (OURS, *row.turns)]
        described = asdict(self.place) | {"token_budget": self.study.token_budget}
        described |= {"checkpointing": self.study.checkpointing, "lora_rank": self.study.rank}
        with_all = ", ".join(f"{name} {value}" for name, value in described.items())
        return "\n".join([*lines, self.waste.text(), f"with {with_all}"])

    def _settings(self) -> dict[str, Setting]:
        study = {name: value for name, value in asdict(self.study).items() if name != "shapes"}
        found: dict[str, Setting] = {**asdict(self.place), **study}
        for row in self.rows:
            name = _named(row.shape)
            found[f"{name}: ratio to full rows"] = row.ratio(FULL)
            found[f"{name}: ratio to padded rows"] = row.ratio(PADDED)
            found[f"{name}: roofline_share"] = row.speed(OURS) / row.roofline()
            for side in (OURS, *row.turns):
                found[f"{name}: tokens/s of {side}"] = row.speed(side)
                found[f"{name}: peak_bytes of {side}"] = row.peak_bytes(side)
        return found | {f"padding of {name}": share for name, share in asdict(self.waste).items()}


def run(place: Place, study: Study) -> Table:
    """Return every side's speed on every shape; run it alone on the machine."""
    config = AutoConfig.from_pretrained(place.model)
    rows = tuple(_measured(place, study, shape, config) for shape in study.shapes)
    return Table(place, study, rows, measure(config, Lengths(), study.token_budget))


def read_shapes(text: str) -> tuple[Shape, ...]:
    """Return the shapes that a text such as "64,32,8,4 1024,256,8" names; groups are 1 unless given."""
    shapes = []
    for word in text.split():
        numbers = [int(part) if part.isdecimal() else 0 for part in word.split(",")]
        if len(numbers) not in (3, 4) or min(numbers) < 1 or numbers[2] < 2:
            raise ConfigError(
                f"{word!r} is not a shape",
                key="--shapes",
                hint="Write prompt,completion,attempts[,groups] in whole numbers, attempts 2 or more.",
            )
        prompt, completion, attempts, groups = (*numbers, 1)[:4]
        shapes.append(Shape(prompt, completion, attempts, groups))
    return tuple(shapes)


def shared_flops(config: PreTrainedConfig, shape: Shape, rank: int) -> float:
    """Count the operations of the matrix products of one update, each prompt computed once.

    A multiplication and an addition for each weight and token: forward, and backward to the inputs
    (frozen weights have no gradient); LoRA's own weights have one. The head sees scored tokens alone.
    Attention between tokens is left out, as is everything element by element.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    width = getattr(config, "head_dim", None) or hidden // heads
    kv = config.num_key_value_heads * width
    sizes = [(hidden, heads * width), (hidden, kv), (hidden, kv), (heads * width, hidden)]
    sizes += [(hidden, config.intermediate_size)] * 2 + [(config.intermediate_size, hidden)]
    frozen = config.num_hidden_layers * sum(rows * columns for rows, columns in sizes)
    adapter = config.num_hidden_layers * rank * sum(rows + columns for rows, columns in sizes)
    head = hidden * config.vocab_size
    return float((4 * frozen + 6 * adapter) * shape.num_shared + 4 * head * shape.num_scored)


def _measured(place: Place, study: Study, shape: Shape, config: PreTrainedConfig) -> Row:
    settings = UpdateSettings(
        model=place.model,
        dtype=place.dtype,
        device=place.device,
        threads=place.threads,
        shape=shape,
        rank=study.rank,
        alpha=2 * study.rank,
        token_budget=study.token_budget,
        checkpointing=study.checkpointing,
        layout="shared",
    )
    full = replace(settings, layout="full")
    others = [
        Program(FULL, UPDATES, asdict(full), place.threads),
        Program(PADDED, str(peer_script("padded_step.py")), asdict(settings), place.threads),
    ]
    program = Program(OURS, UPDATES, asdict(settings), place.threads)
    with Child(program, _Facts, Update) as ours:
        turns = {other.name: _in_turn(ours, other, study) for other in others}
    return Row(shape, turns, shared_flops(config, shape, study.rank))


def _in_turn(ours: Child[_Facts, Update], program: Program, study: Study) -> tuple[Turn, ...]:
    with Child(program, _Facts, Update) as other:
        if ours.facts.num_trainable != other.facts.num_trainable:
            raise RunFailed(
                f"{program.name} trains {other.facts.num_trainable} parameters, "
                f"ours {ours.facts.num_trainable}: no fair comparison"
            )
        turns = [Turn(ours.step(), other.step()) for _ in range(study.warmups + study.repetitions)]
    return tuple(turns[study.warmups :])


def _speed(updates: Iterable[Update]) -> float:
    return geometric_mean(update.num_tokens / update.seconds for update in updates)


def _named(shape: Shape) -> str:
    return f"({shape.prompt}, {shape.completion}, {shape.attempts})"


def _line(row: Row, side: str) -> str:
    cpu = statistics.median(update.cpu_seconds for update in row.updates(side))
    share, peak = row.speed(side) / row.roofline(), row.peak_bytes(side) / GIB
    ratio = "" if side == OURS else f"{row.ratio(side):.2f}x"
    return f"{side:34} {row.speed(side):9.1f} {share:9.1%} {cpu:8.2f} {peak:9.2f} {ratio:>8}"
