"""holdfast ranks: what an operator of a data-parallel training asks, and the table of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import console
from holdfast.journal import scan_journal
from holdfast.report.nodes import HEADS, History, nodes, summary, write


def tell(log: Path, out: Path | None, who: str, far: float = 0.0) -> None:
    """Print who misbehaved, worst first, and write the page if a file is named."""
    history = History.of(scan_journal(log), far)
    if out is not None:
        write(history, out, who)
    table = Table(who, *HEADS, box=None, pad_edge=False, header_style="bold")
    for node in nodes(history):
        table.add_row(*(Text(cell) for cell in node.row()))
    screen = console()
    screen.print(table)
    screen.print(Text(summary(history)), soft_wrap=True)


@example("holdfast ranks ranks.jsonl --far 100 --out ranks.html")
def ranks(
    log: Annotated[Path, typer.Argument(help="The file of a Ledger.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the page too, an html file.")] = None,
    far: Annotated[float, typer.Option(min=0, help="From how many times the middle distance on a rank is far.")] = 5.0,
) -> None:
    """Print the ranks of a torch.distributed training over the steps, worst first: kept, excluded, dropped, and why."""
    tell(log, out, "rank", far)
