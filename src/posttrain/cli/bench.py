"""`posttrain bench`: measurements beside peers, in one run."""

from __future__ import annotations

from typing import Annotated

import typer

from posttrain.cli.options import AsJson

app = typer.Typer(no_args_is_help=True, help="Measure posttrain beside its peers, in one run.")


@app.callback()
def _group() -> None: ...


@app.command(name="engine")
def bench_engine(
    as_json: AsJson = False,
    source: Annotated[str, typer.Option("--model", help="The model to sample from.")] = "smollm2-135m",
    lora: Annotated[bool, typer.Option(help="Sample with an adapter, on both sides.")] = False,
    repetitions: Annotated[int, typer.Option(min=3, help="Interleaved repetitions.")] = 3,
) -> None:
    """Tokens per second beside transformers' generate."""
    import torch

    from posttrain.bench import engine
    from posttrain.models.dtype import DtypeName, choose, choose_device
    from posttrain.models.load import Model, load
    from posttrain.models.lora import Lora

    # `auto` would be float32 for training without an adapter, but nothing is trained here.
    dtype: DtypeName = "bfloat16" if choose("auto", choose_device("auto")) == torch.bfloat16 else "float32"
    model = load(Model(source=source, dtype=dtype, lora=Lora() if lora else None), seed=0)
    result = engine.run(model, engine.Workload(repetitions=repetitions))
    typer.echo(result.json() if as_json else result.text())
