"""holdfast flower: what an operator of a federation asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.ranks import tell

flower = typer.Typer(help="Flower: who misbehaved in which round.", no_args_is_help=True, add_completion=False)


@flower.callback()
def _group() -> None:
    """Flower: who misbehaved in which round."""


@flower.command(epilog="Example:  holdfast flower report server-folder --out nodes.html")
def report(
    log: Annotated[Path, typer.Argument(help="The strategy's folder, or its rounds.jsonl.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the page too, an html file.")] = None,
) -> None:
    """Print the nodes of a federation over the rounds, worst first: kept, excluded, refused, silent, and why."""
    tell(log, out, "node")
