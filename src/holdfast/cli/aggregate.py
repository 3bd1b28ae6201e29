"""holdfast aggregate: a rule on files, and a table of who was kept and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.excess import OnExcess, OnExcessOption, advising
from holdfast.cli.files import check_target, load, load_all, load_each, names_of, save
from holdfast.cli.own import parse_own
from holdfast.cli.sizes import allowed_bytes
from holdfast.cli.weighing import CapOption, WeightsOption, load_weights
from holdfast.cli.wide import Screen, say
from holdfast.contract import Stage
from holdfast.decision import Decision
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.masses import name_masses
from holdfast.places import fetch
from holdfast.rules import StreamCenterwO
from holdfast.structure import Malformed, flatten, majority, mismatch, shape_of
from holdfast.twophase import WINNERS, TwoPhase

MANY = 60  # workers beyond which only those that were not kept are listed


@example("holdfast aggregate 'MeanwO(f=4)' sample/worker-*.npz --out aggregate.npz")
def aggregate(
    rule: Annotated[str, typer.Argument(help="As `holdfast rules` lists them: 'NNM(f=3) >> Krum(f=3)'.")],
    files: Annotated[list[Path], typer.Argument(help="A file a worker, or one file with a row a worker.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the aggregate goes.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For rules that draw at random.")] = None,
    start: Annotated[Path | None, typer.Option(help="Start point of CenteredClipping.")] = None,
    like: Annotated[Path | None, typer.Option(help="An update of the right structure; else the majority's.")] = None,
    on_excess: OnExcessOption = OnExcess.refuse,
    weights: WeightsOption = None,
    share: CapOption = None,
    reference: Annotated[Path | None, typer.Option(help="Print the distance of the aggregate to this one.")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The most that a file may unpack to; else by --like or the other files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The decision as one line of JSON.")] = False,
) -> None:
    """Aggregate updates from npy, npz, safetensors or pt files, and show who was kept, excluded or dropped.

    RULE is written as `holdfast rules` lists them. 'my_rules.py:Crowd(f=4)' or 'package.module:Crowd(f=4)' is a rule of
    your own; this runs the code of the file or module. FILES is one file per worker, or one file with a row per worker.
    A file is dropped by name if it cannot be read, if it differs from the structure of the majority, or if it unpacks
    to much more than the others. If more are dropped than the rule tolerates, nothing is aggregated unless --on-excess
    lower is given. A rule of two phases gives two candidates, between which the workers vote; --out FILE.npz keeps them
    as FILE-inner.npz and FILE-outer.npz.
    """
    chosen = parse_own(rule)
    if chosen.random and seed is None:
        raise BadInput(f"{chosen!r} draws at random; add --seed 1.")
    places = {name: _beside(out, name) for name in WINNERS} if isinstance(chosen, TwoPhase) else {"": out}
    for place in places.values():
        if place:
            check_target(place)
    model = load(like) if like else None
    if isinstance(chosen, StreamCenterwO) and len(files) > 1:  # one file at a time
        limit = allowed_bytes(files, like=model, max_bytes=max_bytes)
        updates, names = load_each(files, limit), names_of(files)
        if model is None:
            model = majority(list(load_each(files[: max(3, 2 * chosen.f + 1)], limit)))
    else:
        updates, names = load_all(files, like=model if len(files) > 1 else None, max_bytes=max_bytes)
        if model is None and isinstance(updates, list):
            model = majority(updates)
    ask = chosen.propose if isinstance(chosen, TwoPhase) else chosen.decide
    with advising():
        answer = ask(
            updates,
            rng=None if seed is None else np.random.default_rng(seed),
            start=load(start) if start else None,
            like=model,
            on_excess=on_excess.value,
            names=names,
            weights=load_weights(weights, names, tolerance(chosen), share),
        )
    decisions = {"": answer} if isinstance(answer, Decision) else {name: getattr(answer, name) for name in WINNERS}
    records = {}
    for name, decision in decisions.items():
        if place := places[name]:
            save(place, decision.value)
        apart = distance(decision.value, load(reference)) if reference else None
        records[name] = record(decision, names, apart)
        if not as_json:
            show(decision, names, place, apart)
    if as_json:
        say(json.dumps(records.get("", records), allow_nan=False))
    elif isinstance(chosen, TwoPhase):
        say("both are candidates: take the one that most workers prefer on their own data")


def tolerance(rule: Stage | TwoPhase) -> int | None:
    """The f of a rule, or of Inner."""
    return rule.inner.tolerance() if isinstance(rule, TwoPhase) else rule.tolerance()


def _beside(out: Path | None, name: str) -> Path | None:
    """The file of one candidate: aggregate.npz becomes aggregate-inner.npz."""
    return out and out.with_stem(f"{out.stem}-{name}")


def distance(a: Any, b: Any) -> float:
    """Euclidean distance between two updates of the same structure."""
    refused = BadInput("--reference differs in structure from the aggregate; give an update of the same one.")
    try:
        one, two = flatten(a), flatten(b)
    except Malformed:
        raise refused from None
    if mismatch(shape_of(two), shape_of(one)):
        raise refused
    pairs = ((fetch(x.numbers).astype(float), fetch(y.numbers).astype(float)) for x, y in zip(one, two, strict=True))
    squares = (np.sum((x - y) ** 2) for x, y in pairs)
    return float(np.sqrt(sum(squares)))


def record(decision: Decision, names: list[str], apart: float | None) -> dict[str, Any]:
    """The decision as plain values."""
    return {
        "rule": repr(decision.rule),
        "asked": repr(decision.asked),
        "kept": [names[i] for i in decision.kept],
        "excluded": {names[i]: decision.rule.why for i in decision.excluded},
        "dropped": {names[i]: why for i, why in decision.dropped.items()},
        "weights": dict(zip(names, decision.weights.tolist(), strict=True)),
        **name_masses(decision.masses, names),
        "note": decision.note,
        "cost": finite_or_none(decision.cost),
        "bound": finite_or_none(decision.bound),
        "distance_to_reference": finite_or_none(apart),
    }


def show(decision: Decision, names: list[str], out: Path | None, apart: float | None) -> None:
    """The same for people."""
    console = Screen()
    table = Table(
        "worker", "status", decision.measure, "distance", "why", box=None, pad_edge=False, header_style="bold"
    )
    colour = {"kept": "", "excluded": "yellow", "dropped": "red", "absent": "dim"}
    for row in decision.table(names):
        if decision.n <= MANY or row[1] != "kept":
            table.add_row(*(Text(" ".join(cell.split())) for cell in row), style=colour[row[1]])
    console.print(table)
    console.print(Text(decision.summary()), soft_wrap=True)
    if apart is not None:
        console.print(f"distance to the reference: {apart:.4g}", highlight=False)
    where = f"the aggregate is in {out}" if out else "add --out FILE to keep the aggregate"
    console.print(Text(where), soft_wrap=True)
