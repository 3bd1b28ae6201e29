"""holdfast compare: many rules on the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from holdfast.cli.example import example
from holdfast.cli.excess import OnExcess, OnExcessOption, advising
from holdfast.cli.files import load, load_all
from holdfast.cli.own import HELP, parse_own_rule
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.reading import read
from holdfast.report.compare import Comparison, draw
from holdfast.report.compare import compare as compared
from holdfast.structure import majority

RULES = (
    "Average; PTM({f}); MeanwO({f}); CenterwO({f}); MeanExact({f}); CWTM({f}); GeometricMedian; NNM({f}) >> CWTM({f})"
)


@example("holdfast compare sample/worker-*.npz --f 4 --plot compare.svg")
def compare(
    files: Annotated[list[Path], typer.Argument(help="One file per worker, or one file with a row per worker.")],
    f: Annotated[int, typer.Option(min=0, help="How many may lie; also the f of the optimum.")],
    rules: Annotated[str, typer.Option(help=f"Rules, separated by semicolons. {HELP}.")] = "",
    like: Annotated[Path | None, typer.Option(help="An update of the right structure; else the majority's.")] = None,
    on_excess: OnExcessOption = OnExcess.refuse,
    seed: Annotated[int, typer.Option(min=0, help="For rules that draw at random.")] = 0,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The most that a file may unpack to; else by the other files.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the answers and how they move with f: svg, png or pdf.")
    ] = None,
) -> None:
    """Compare rules on the same updates: cost against the optimum, who is kept, how far apart the answers are.

    FILES is one file per worker, or one file with a row per worker. The last line shows how MeanwO's answer moves with
    f. If you do not know f, `holdfast profile` shows more.
    """
    if plot and plot.suffix not in (".svg", ".png", ".pdf"):
        raise BadInput(f"--plot {plot} was given; the formats are .svg, .png, .pdf.")
    chosen = [parse_own_rule(text) for text in (rules or RULES.format(f=f)).split(";") if text.strip()]
    updates, names = load_all(files, max_bytes=max_bytes)
    model = load(like) if like else majority(updates) if isinstance(updates, list) else None
    with advising():
        given = read(updates, "compare", like=model, on_excess=on_excess.value, names=names)
        comparison = compared(given, chosen, f, rng=np.random.default_rng(seed))
    show(comparison, names)
    if plot:
        draw(comparison, plot)
        say(f"the plot is in {plot}")


def show(comparison: Comparison, names: list[str]) -> None:
    """Tables for people."""
    console = Screen()
    table = Table("rule", "cost / optimum", "not kept", box=None, pad_edge=False, header_style="bold")
    for rule, decision, cost in zip(comparison.rules, comparison.decisions, comparison.costs, strict=True):
        out = [names[i] for i in range(decision.n) if i not in decision.kept]
        table.add_row(repr(rule), "" if np.isnan(cost) else f"{cost:.4f}", ", ".join(out))
    console.print(table)
    console.print("the optimum is proven" if comparison.proven else "the optimum is the best set found, not proven")
    apart = Table(
        "distance between answers", *(str(i + 1) for i in range(len(comparison.rules))), box=None, pad_edge=False
    )
    for i, rule in enumerate(comparison.rules):
        apart.add_row(f"{i + 1} {rule!r}", *(f"{d:.3g}" for d in comparison.apart[i]))
    console.print(apart)
    moves = "  ".join(f"{f}: {move:.3g}" for f, move in enumerate(comparison.moves))
    console.print(
        f"MeanwO's distance from the mean of all, in spreads, for f = {moves}", highlight=False, soft_wrap=True
    )
