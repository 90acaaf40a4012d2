"""`posttrain new`: begin a domain package of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The package's name, such as unit-conversion.")],
    folder: Annotated[Path, typer.Option("--dir", help="Where to put its folder.")] = Path("."),
) -> None:
    """Write a domain package that passes its check and its tests, and trains on `tiny`, at once."""
    from posttrain.scaffold.package import create, next_steps

    typer.echo(next_steps(create(name, folder)))
