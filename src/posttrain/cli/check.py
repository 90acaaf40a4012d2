"""`posttrain check`: does a part keep its contract, and do the learner's numbers hold on a config?"""

from __future__ import annotations

from typing import Annotated

import typer

from posttrain.cli.options import AsJson, exit_with

app = typer.Typer()


@app.command()
def check(
    target: Annotated[
        str,
        typer.Argument(help="package.module:thing, a short name such as generated:gcd, or a config file."),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="key=value: the thing's arguments, or changes to the config.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="What it is, if that cannot be told: domain, verifier, engine …")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of a domain, for each split and level.")] = 8,
    deadline: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds that one call of a domain's or verifier's function may take."),
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Run the contract suite on TARGET, or the learner's checks on a config; exit 1 if a rule is broken."""
    from posttrain.check import program

    report = program.check(target, arguments or (), kind=kind, num_tasks=tasks, deadline_seconds=deadline)
    typer.echo(report.json() if as_json else report.text())
    exit_with(0 if report.holds else 1)
