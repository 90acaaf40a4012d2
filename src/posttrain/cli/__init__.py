"""The `posttrain` command: parse arguments, run a program, turn errors into exit codes.

Exit 0 done, 1 failed or gate not passed, 2 bad input, 130 interrupted. Programs are imported when
called, so `--help` loads no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from posttrain import __version__
from posttrain.cli import bench, check, mine, model, new, runs, sandbox
from posttrain.errors import boundary

INTERRUPTED = 130

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Post-train language models by reinforcement learning on verifiable work.",
)
app.add_typer(runs.app)
app.add_typer(check.app)
app.add_typer(new.app)
app.add_typer(mine.app)
app.add_typer(model.app, name="model")
app.add_typer(bench.app, name="bench")
app.add_typer(sandbox.app, name="sandbox")


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
