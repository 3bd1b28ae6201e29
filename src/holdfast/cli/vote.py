"""holdfast vote: how often the better candidate loses, and the batch that helps."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.elections import Ballot, Numeric
from holdfast.guarantees.vote import DRAWS, MAX_BATCH, METHODS, Sample, Voters, batch_for, enough, fails, largest_error

LABELS = {"ballot": "ballot", "numeric": "loss differences"}


@example("holdfast vote --n 35 --f 7 --batch 24 --gap 0.1")
def vote(
    n: Annotated[int, typer.Option(help="The voters.")],
    f: Annotated[int, typer.Option(help="How many of them lie.")],
    batch: Annotated[int, typer.Option(help="Samples on which a voter compares the candidates.")],
    gap: Annotated[float, typer.Option(help="By how much the better one's loss is smaller on a voter's data.")],
    deviation: Annotated[
        float | None, typer.Option(help="Standard deviation of a sample's loss difference; 1 if nothing is said.")
    ] = None,
    range_: Annotated[float | None, typer.Option("--range", help="Length of an interval that holds them all.")] = None,
    target: Annotated[float, typer.Option(help="How often the better one may lose.")] = 0.01,
    cast: Annotated[int | None, typer.Option(help="How many report; all of them, if nothing is said.")] = None,
    margin: Annotated[float, typer.Option(help="What Numeric asks of Outer.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated elections.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Tell how often f liars win a vote between two candidates, by ballot and by the trimmed mean of loss differences.

    All liars are against the better candidate, and ties are lost. Bounds are proved; the normal approximation, for loss
    differences simulated, is what to expect.
    """
    voters = Voters(n, f, cast)
    sample = Sample(gap, batch, 1.0 if deviation is None and range_ is None else deviation, range_)
    fields = record(voters, sample, Numeric(margin=margin), target, seed)
    if as_json:
        say(json.dumps(fields, allow_nan=False))
    else:
        show(fields, voters, sample)


def record(voters: Voters, sample: Sample, numeric: Numeric, target: float, seed: int) -> dict[str, Any]:
    """Both elections as plain values."""
    fields: dict[str, Any] = {"n": voters.n, "f": voters.f, "cast": voters.reports, "gap": sample.gap}
    fields |= {"batch": sample.batch, "deviation": sample.deviation, "range": sample.range, "margin": numeric.margin}
    fields |= {"target": target, "largest_error": largest_error(voters, target), "simulated": DRAWS}
    fields["methods"] = {method: METHODS[method] for method in sample.methods}
    fields["errors"] = {method: sample.error(method) for method in sample.methods}
    fields["ballot"] = {"needed": voters.needed, "honest": voters.honest, "tolerated": voters.errors}
    fields["numeric"] = {"cut": voters.f, "kept": voters.kept}
    for name, election in (("ballot", Ballot()), ("numeric", numeric)):
        beyond = sample.gap - (numeric.margin if name == "numeric" else 0.0)
        factor = enough(election, voters)
        fields[name]["disagreement"] = max(0.0, beyond) / factor if factor else None
        fields[name]["fails"] = {m: fails(election, voters, sample, m, seed) for m in sample.methods}
        fields[name]["batch"] = {m: batch_for(election, voters, sample, m, target, seed) for m in sample.methods}
    return fields


def show(fields: dict[str, Any], voters: Voters, sample: Sample) -> None:
    """The same for people."""
    ballot, numeric, target = fields["ballot"], fields["numeric"], fields["target"]
    table = Table("", *LABELS.values(), box=None, pad_edge=False, header_style="bold")
    table.add_row("wins with", f"{ballot['needed']} of {voters.reports} votes", f"a mean above {fields['margin']:g}")
    left = f"{numeric['kept']} reports are left of {voters.reports}"
    table.add_row("tolerates", f"{ballot['tolerated']} errors of {ballot['honest']} honest voters", left)
    apart = ("any" if one["disagreement"] is None else f"{one['disagreement']:.3g}" for one in (ballot, numeric))
    table.add_row("honest gaps may deviate by", *apart)
    for method in sample.methods:
        kinds = {"normal": "approximation, simulated"}.get(method, METHODS[method])
        least = 3 / DRAWS if method == "normal" else 0.0
        lost = (_rate(ballot["fails"][method], 0.0), _rate(numeric["fails"][method], least))
        table.add_row(f"loses ({method.capitalize()}, {kinds})", *lost)
    for method in sample.methods:
        batches = (_many(one["batch"][method]) for one in (ballot, numeric))
        table.add_row(f"batch for {target:g} ({method.capitalize()})", *batches)
    console = Screen()
    console.print(table)
    console.print(Text(advice(fields)), soft_wrap=True)


def advice(fields: dict[str, Any]) -> str:
    """One sentence: what batch to take."""
    if fields["gap"] <= fields["margin"]:
        return (
            f"The margin {fields['margin']:g} is not below the gap {fields['gap']:g}, so loss differences elect Inner."
        )
    bounds = [
        min((b for m, b in fields[name]["batch"].items() if b and m != "normal"), default=None) for name in LABELS
    ]
    usual = [fields[name]["batch"].get("normal") for name in LABELS]
    expected = f"; expect {_by(usual)} to do" if any(usual) else ""
    lost, limit = f"at most {fields['target']:g} of the votes are lost", f"batch up to {MAX_BATCH:.2g}"
    if not any(bounds):
        return f"No {limit} proves that {lost}{expected}."
    lacking = [label for label, batch in zip(LABELS.values(), bounds, strict=True) if not batch]
    missing = f"; no {limit} does by {lacking[0]}" if lacking else ""
    return f"A proof that {lost} takes batch {_by(bounds)}{missing}{expected}."


def _by(batches: list[int | None]) -> str:
    """The batches that there are, with the elections that they are for."""
    return ", ".join(f"{b:,} by {label}" for b, label in zip(batches, LABELS.values(), strict=True) if b)


def _rate(chance: float, least: float) -> str:
    return f"below {least:.2g}" if chance < least else f"{chance:.3g}"


def _many(batch: int | None) -> str:
    return "-" if batch is None else f"{batch:,}"
