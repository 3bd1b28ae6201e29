"""holdfast demo: the main job, in about a minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import Screen
from holdfast.disk import write_text
from holdfast.errors import BadInput
from holdfast.experiments.demo import BASE, LIARS, RULES, SETS, WORKERS, accuracies, cells, page
from holdfast.experiments.pool import trained
from holdfast.report.page import write
from holdfast.spec import unknown
from holdfast.training import Result

Results = dict[tuple[str, str], Result]


@example("holdfast demo demo --rounds 5")
def demo(
    folder: Annotated[Path, typer.Argument(help="Where the page goes; made if need be.")] = Path("demo"),
    attacks: Annotated[str, typer.Option(help="paper: its seven; harder: eight that hide.")] = "paper",
    rounds: Annotated[int, typer.Option(help="Rounds of each training.", min=1)] = BASE.rounds,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    processes: Annotated[int, typer.Option(help="Trainings at a time; 0: one a core.", min=0)] = 0,
) -> None:
    """Train on handwritten digits, 20 workers of which 8 lie, under the paper's seven attacks, with seven rules.

    Prints the table of final accuracies and writes a page with curves, votes and who was kept.
    """
    if attacks not in SETS:
        raise BadInput(unknown(attacks, SETS, "set of attacks"))
    folder.mkdir(parents=True, exist_ok=True)
    runs = cells(attacks, seed, rounds)
    results: Results = {}
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = bar.add_task("trainings", total=len(runs))
    console = Screen()
    console.print(
        f"{WORKERS} workers, {LIARS} of them liars; accuracy after {rounds} rounds; Worst is over the attacks."
    )
    with Live(Group(table(results, attacks), bar), console=console, refresh_per_second=4) as live:
        for key, result in trained(runs, processes or None):
            results[key] = result
            bar.advance(task)
            live.update(Group(table(results, attacks), bar))
    console.print()
    for name, rule in RULES.items():
        if f"{rule!r}".partition("(")[0] != name:
            console.print(f"{name} is {rule!r}", soft_wrap=True, highlight=False)
    out = folder / "index.html"
    write(page(results, attacks, rounds), out)
    write_text(folder / "accuracies.json", json.dumps(accuracies(results, attacks, rounds, seed), indent=1) + "\n")
    console.print(f"Curves, votes and who was kept: open {out}", soft_wrap=True)


def table(results: Results, attacks: str) -> Table:
    """Rules x attacks, with the worst over the attacks; what is not there yet is a dot."""
    out = Table(box=None, pad_edge=False, header_style="bold")
    out.add_column("rule")
    for name in (*SETS[attacks], "Worst"):
        out.add_column(name, justify="right")
    for rule in RULES:
        accuracies = [results[rule, attack].accuracy if (rule, attack) in results else None for attack in SETS[attacks]]
        attacked = [value for value in accuracies[1:] if value is not None]
        worst = min(attacked) if len(attacked) == len(SETS[attacks]) - 1 else None
        out.add_row(rule, *map(_shade, (*accuracies, worst)))
    return out


def _shade(value: float | None) -> Text:
    if value is None:
        return Text("·", style="dim")
    return Text(f"{value:.2f}", style="green" if value >= 0.8 else "yellow" if value >= 0.5 else "red")
