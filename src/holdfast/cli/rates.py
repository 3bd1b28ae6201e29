"""holdfast rates: Theorem 1 for a rule's constants."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.rates import FORMULAS, Rate, Setting
from holdfast.guarantees.rates import rates as all_rates
from holdfast.spec import parse_rule

HIDDEN = "Orders, not bounds: they hide a constant, the smoothness L and the loss at the start."


@example("holdfast rates --n 35 --f 7 --sigma 2 --G 0.5 --T 3000 --rule 'MeanwO(f=7)'")
def rates(
    n: Annotated[int, typer.Option(help="The workers.")],
    f: Annotated[int, typer.Option(help="How many of them lie.")],
    sigma: Annotated[float, typer.Option(help="Noise of a worker's gradients.")],
    T: Annotated[int, typer.Option("--T", help="Rounds.")],
    G: Annotated[float, typer.Option("--G", help="Heterogeneity of the workers.")] = 0.0,
    L: Annotated[float, typer.Option("--L", help="Smoothness; the orders hide it.")] = 1.0,
    rule: Annotated[str, typer.Option(help="A rule, whose proved constants are taken.")] = "",
    constant: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(FORMULAS)} of the rule, as kappa=1.34; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Give the orders of Theorem 1: how small the squared gradients become in T rounds of RASHB.

    What stays does not shrink with more rounds: it is the price of liars among workers that differ.
    """
    setting = Setting(n=n, f=f, T=T, sigma=sigma, G=G, L=L)
    proved = promised(rule, n, f) if rule else {}
    orders = all_rates(setting, proved | (constants(constant) if constant else {}) or constants([]))
    if as_json:
        plain = {"setting": asdict(setting), "rates": [{**asdict(one), "order": one.order} for one in orders]}
        say(json.dumps({**plain, "note": HIDDEN}, allow_nan=False))
    else:
        show(orders)


def promised(rule: str, n: int, f: int) -> dict[str, float]:
    """The constants that are proved of a rule; refuses one without any."""
    proved = {name: promise.ours.value for name, promise in bounds(parse_rule(rule), n, f).items() if promise.ours}
    known = {name: value for name, value in proved.items() if value < math.inf}
    if not known:
        raise BadInput(f"{rule} has no proved constant; give your own, such as --constant kappa=1.34.")
    return known


def constants(texts: list[str]) -> dict[str, float]:
    """From kappa=1.34 and its like.

    >>> constants(["kappa=1.34", "xi=2"])
    {'kappa': 1.34, 'xi': 2.0}
    """
    given = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            given[name.strip()] = float(number)
        except ValueError:
            raise BadInput(f"--constant {text} was given; write it as kappa=1.34.") from None
    if not given:
        raise BadInput(
            f"no --rule or --constant was given; write one, such as kappa=1.34; there are {', '.join(FORMULAS)}."
        )
    return given


def show(orders: tuple[Rate, ...]) -> None:
    """One line per criterion."""
    heads = ("Theorem 1", "constant", "order", "stays", "vanishes", "together", "")
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for one in orders:
        numbers = ("", "", "") if one.why else (f"{x:.3g}" for x in (one.stays, one.vanishes, one.order))
        table.add_row(one.part, f"{one.criterion} {one.constant:.4g}", one.formula, *numbers, one.why)
    console = Screen()
    console.print(table)
    console.print(Text(HIDDEN), soft_wrap=True)
