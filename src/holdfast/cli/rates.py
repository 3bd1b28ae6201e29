"""holdfast rates: Theorem 1 for a rule's constants."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.convergence import Descent, Election, GradientBound, bound_gradients
from holdfast.guarantees.rates import FORMULAS, Rate, Setting
from holdfast.guarantees.rates import rates as all_rates
from holdfast.spec import parse_rule

NAMES: dict[Election, str] = {"none": "one phase", "numeric": "two, numeric", "ballot": "two, ballot"}
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
    step: Annotated[float | None, typer.Option(help="Length of a step: print true bounds too.")] = None,
    start: Annotated[float, typer.Option(help="Mean loss at the start minus the least one; for the bounds.")] = 1.0,
    momentum: Annotated[float, typer.Option(help="Of the workers; for the bounds.")] = 0.0,
    batch: Annotated[int, typer.Option(help="Samples of a gradient; for the bounds.", min=1)] = 1,
    proximal: Annotated[float, typer.Option(help="c of a vote's proximal margin; 0: no vote.")] = 0.0,
    vote_batch: Annotated[int | None, typer.Option(help="Fresh samples of a vote; usually all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Give the orders of Theorem 1: how small the squared gradients become in T rounds of RASHB.

    What stays does not shrink with more rounds: it is the price of liars among workers that differ. With --step, true
    bounds follow, with all constants: of one phase, and with --proximal of two (docs/guarantees.md, theorems A and B).
    """
    setting = Setting(n=n, f=f, T=T, sigma=sigma, G=G, L=L)
    proved = promised(rule, n, f) if rule else {}
    known = proved | (constants(constant) if constant else {}) or constants([])
    orders = all_rates(setting, known)
    bounded: dict[str, GradientBound] = {}
    if step is not None:
        if "kappa" not in known:
            raise BadInput("--step was given without a κ; the bounds need one, such as --constant kappa=1.34.")
        one_phase = Descent(step, start, known["kappa"], momentum, batch)
        elections: tuple[Election, ...] = ("none", "numeric", "ballot") if proximal else ("none",)
        for election in elections:
            descent = replace(one_phase, election=election, proximal=proximal, vote_batch=vote_batch)
            bounded[NAMES[election]] = bound_gradients(setting, descent if election != "none" else one_phase)
    if as_json:
        plain = {"setting": asdict(setting), "rates": [{**asdict(one), "order": one.order} for one in orders]}
        plain["bounds"] = [{"phases": name, **asdict(one), "total": one.total} for name, one in bounded.items()]
        say(json.dumps({**plain, "note": HIDDEN}, allow_nan=False))
    else:
        show(orders)
        if bounded:
            show_bounds(bounded)


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


def show_bounds(bounded: Mapping[str, GradientBound]) -> None:
    """One line per kind of training, with what the bound is made of."""
    heads = ("bound on the mean squared gradient", "theorem", "start", "aggregation", "vote", "together")
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for name, one in bounded.items():
        table.add_row(name, one.theorem, *(f"{x:.3g}" for x in (one.start, one.aggregation, one.vote, one.total)))
    Screen().print("", table, sep="\n")
