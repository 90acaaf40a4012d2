"""`posttrain model`: fetch models."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Fetch models.")


@app.callback()
def _group() -> None: ...


@app.command()
def fetch(source: Annotated[str, typer.Argument(help="smollm2-135m or tiny.")] = "smollm2-135m") -> None:
    """Fetch a model into the cache and print its folder."""
    from posttrain.models.source import resolve

    typer.echo(resolve(source))
