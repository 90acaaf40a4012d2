"""Commands that train, evaluate and show: `train`, `sft`, `eval`, `demo`, `curves`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posttrain.cli.options import (
    AsJson,
    ConfigPath,
    DryRun,
    OptionalConfigPath,
    Overrides,
    RunPath,
    exit_with,
)

app = typer.Typer()


@app.command()
def train(
    config: OptionalConfigPath = None,
    overrides: Overrides = None,
    run: RunPath = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    allow_changed: Annotated[bool, typer.Option(help="Resume although identity keys differ.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Train by reinforcement learning as CONFIG says, or go on with --resume RUN."""
    from posttrain.train import program

    changes = overrides or []
    if resume is not None and config is not None and "=" in str(config):
        # A resumed run has its config already, so the first argument may be an override.
        config, changes = None, [str(config), *changes]
    exit_with(program.train_command(config, changes, run, resume, allow_changed, dry_run))


@app.command()
def sft(
    config: ConfigPath, overrides: Overrides = None, run: RunPath = None, dry_run: DryRun = False
) -> None:
    """Warm a model up on gold answers as CONFIG says; writes an adapter to start `train` from."""
    from posttrain.train import program

    if dry_run:
        typer.echo(program.resolved(config, overrides or []))
        return
    exit_with(program.sft_command(config, overrides or [], run))


@app.command(name="eval")
def evaluate(
    config: ConfigPath,
    overrides: Overrides = None,
    adapter: Annotated[
        Path | None, typer.Option(help="A PEFT adapter to evaluate; default the config's model.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="What to compare with: 'base', or another adapter's folder.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the report to this JSON file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure success on held-out tasks, with intervals and the best constant answer beside it."""
    from posttrain.evaluate import command

    typer.echo(command.run(config, overrides or [], adapter, against, out, as_json))


@app.command()
def demo(
    overrides: Overrides = None,
    run: RunPath = None,
) -> None:
    """Make a real 135 M model measurably better at several domains, on a laptop CPU."""
    from posttrain.demo import program

    exit_with(program.run(overrides or [], run))


@app.command()
def curves(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The SVG file to write.")] = Path("curves.svg"),
) -> None:
    """Draw a run's learning curve per domain as an SVG."""
    from posttrain.demo.curves import draw

    typer.echo(f"wrote {draw(run, out)}")
