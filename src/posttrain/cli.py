"""The `posttrain` command: parse arguments, run a program, turn errors into exit codes.

Exit 0 done, 1 failed or gate not passed, 2 bad input, 130 interrupted. Programs are imported when
called, so `--help` loads no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from posttrain import __version__
from posttrain.errors import boundary

INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Post-train language models by reinforcement learning on verifiable work.",
)
model_app = typer.Typer(no_args_is_help=True, help="Fetch models.")
bench_app = typer.Typer(no_args_is_help=True, help="Measure posttrain beside its peers, in one run.")
app.add_typer(model_app, name="model")
app.add_typer(bench_app, name="bench")

ConfigPath = Annotated[Path, typer.Argument(help="A TOML file; see configs/.")]
OptionalConfigPath = Annotated[Path | None, typer.Argument(help="A TOML file; see configs/.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Changes, such as algorithm.clip_high=0.3.")]
RunPath = Annotated[
    Path | None, typer.Option("--run", help="The run folder to write; default runs/<config>-<time>.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved configuration and stop.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"posttrain {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None: ...


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
    _exit(program.train_command(config, changes, run, resume, allow_changed, dry_run))


@app.command()
def sft(
    config: ConfigPath, overrides: Overrides = None, run: RunPath = None, dry_run: DryRun = False
) -> None:
    """Warm a model up on gold answers as CONFIG says; writes an adapter to start `train` from."""
    from posttrain.train import program

    if dry_run:
        typer.echo(program.resolved(config, overrides or []))
        return
    _exit(program.sft_command(config, overrides or [], run))


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

    _exit(program.run(overrides or [], run))


@app.command()
def curves(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The SVG file to write.")] = Path("curves.svg"),
) -> None:
    """Draw a run's learning curve per domain as an SVG."""
    from posttrain.demo.curves import draw

    typer.echo(f"wrote {draw(run, out)}")


@model_app.command()
def fetch(source: Annotated[str, typer.Argument(help="smollm2-135m or tiny.")] = "smollm2-135m") -> None:
    """Fetch a model into the cache and print its folder."""
    from posttrain.models.source import resolve

    typer.echo(resolve(source))


@bench_app.command(name="engine")
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


def _exit(code: int) -> None:
    if code:
        raise typer.Exit(code)


def main() -> None:
    """Run the command; every failure becomes one clear message and an exit code."""
    sys.exit(guarded(app))


def guarded(command: Callable[[], Any]) -> int:
    """Call `command` and return its exit code; unknown exceptions keep their traceback."""
    try:
        command()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        known = boundary(error)
        if known is None:
            raise
        print(f"error: {known}", file=sys.stderr)
        return known.exit_code
    return 0


if __name__ == "__main__":
    main()
