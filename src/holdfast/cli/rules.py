"""holdfast rules: the catalogue."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holdfast.cli.example import example
from holdfast.errors import BadInput
from holdfast.rules import CATALOGUE


@example("holdfast rules MeanwO")
def rules(name: Annotated[str, typer.Argument(help="One rule, with its whole text.")] = "") -> None:
    """List the rules with formula, promise and cost; or tell all about one.

    n vectors of dimension d, f of them lying, n > 2f. κ bounds the squared distance to the honest mean in
    units of the honest variance, λ the distance in units of the honest diameter.
    """
    if name and name not in CATALOGUE:
        raise BadInput(f"{name} is no known rule; known are {', '.join(CATALOGUE)}.")
    if name:
        typer.echo(f"{signature(CATALOGUE[name])}\n{CATALOGUE[name].__doc__}")
        return
    table = Table("rule", "what it returns", "promise", "time", box=None, pad_edge=False, header_style="bold")
    for rule in CATALOGUE.values():
        table.add_row(signature(rule), rule.formula, rule.promise, rule.cost)
    Console().print(table)


def signature(rule: type[Any]) -> str:
    """The rule as it is written: Krum(f, others='n-f-2', squared=True)."""
    told = (f.name if f.default is MISSING else f"{f.name}={f.default!r}" for f in fields(rule))
    return f"{rule.__name__}({', '.join(told)})"
