"""What several commands take, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigPath = Annotated[Path, typer.Argument(help="A TOML file; see configs/.")]
OptionalConfigPath = Annotated[Path | None, typer.Argument(help="A TOML file; see configs/.")]
Overrides = Annotated[list[str] | None, typer.Argument(help="Changes, such as algorithm.clip_high=0.3.")]
RunPath = Annotated[
    Path | None, typer.Option("--run", help="The run folder to write; default runs/<config>-<time>.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved configuration and stop.")]


def exit_with(code: int) -> None:
    """End the command with `code`, unless it is 0."""
    if code:
        raise typer.Exit(code)
