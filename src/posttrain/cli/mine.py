"""`posttrain mine`: tasks from the doctests of an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posttrain.cli.options import AsJson

app = typer.Typer()


@app.command()
def mine(
    package: Annotated[str, typer.Argument(help="An installed package, a module's name, or stdlib.")],
    out: Annotated[Path, typer.Option("--out", help="The directory to write; new or empty.")],
    function_seconds: Annotated[
        float, typer.Option(min=1.0, help="Seconds that one function may take.")
    ] = 60.0,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which no function is begun.")
    ] = 1_800.0,
    as_json: AsJson = False,
) -> None:
    """Turn the doctests of PACKAGE into proven tasks for `use = "mined"`; it runs in boxes only."""
    import json

    from posttrain.mine import program

    limits = program.Limits(function_seconds, seconds)
    report = program.run(package, out, limits, lambda line: typer.echo(line, err=True))
    typer.echo(json.dumps(report.to_json()) if as_json else report.text())
    if not as_json:
        typer.echo(f"wrote {out}")
