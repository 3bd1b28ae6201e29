"""holdfast profile: how the answer of a rule depends on f."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.files import check_target, load, load_all
from holdfast.cli.own import HELP, parse_own_rule
from holdfast.cli.weighing import WeightsOption, load_weights
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.guarantees.profile import HEAD, Profile
from holdfast.guarantees.profile import profile as profiled
from holdfast.jsonable import to_json
from holdfast.reading import read
from holdfast.report.profile import draw
from holdfast.structure import majority


@example("holdfast profile 'MeanwO(f=1)' sample/worker-*.npz --out profile.svg")
def profile(
    rule: Annotated[str, typer.Argument(help=f"A rule with any f, as `holdfast rules` lists them. {HELP}.")],
    files: Annotated[list[Path], typer.Argument(help="One file per worker, or one file with a row per worker.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Draw the profile: svg, png or pdf.")] = None,
    weights: WeightsOption = None,
    like: Annotated[Path | None, typer.Option(help="An update of the right structure; else the majority's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For rules that draw at random.")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The most that a file may unpack to; else by the other files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one line of JSON.")] = False,
) -> None:
    """Show how a rule's answer depends on f, for those who do not know f: a line for each f, jumps are marked.

    The answer jumps where a vector loses its weight that stands far from the others. Take at least the last such f. A
    line shows how many workers are excluded, κ(X) of this answer, the κ that the rule promises for every round if at
    most f lie, and how far the answer moved. Files that cannot be used are dropped and do not count in f.
    """
    if out:
        check_target(out, (".svg", ".png", ".pdf"))
    chosen = parse_own_rule(rule)
    if chosen.random and seed is None:
        raise BadInput(f"{chosen!r} draws at random; add --seed 1.")
    updates, names = load_all(files, max_bytes=max_bytes)
    model = load(like) if like else majority(updates) if isinstance(updates, list) else None
    masses = load_weights(weights, names, None, None)
    given = read(updates, "profile", like=model, names=names, weights=masses)
    found = profiled(given, chosen, rng=None if seed is None else np.random.default_rng(seed))
    if out:
        draw(found, out)
    if as_json:
        say(json.dumps(to_json(record(found, names)), allow_nan=False))
    else:
        show(found, names, out)


def record(found: Profile, names: list[str]) -> dict[str, Any]:
    """The profile as plain values."""
    steps = [
        {
            "f": f,
            "rule": repr(decision.rule),
            "excluded": [names[i] for i in decision.excluded],
            "kappa": found.kappas[f],
            "promised": found.promises[f],
            "moved": found.moves[f],
            "spread": found.spreads[f],
            "ratio": found.ratios[f],
            "jump": f in found.jumps,
        }
        for f, decision in enumerate(found.decisions)
    ]
    dropped = {names[i]: why for i, why in found.decisions[0].dropped.items()}
    return {"n": found.n, "jump": found.jump, "dropped": dropped, "steps": steps}


def show(found: Profile, names: list[str], out: Path | None) -> None:
    """The same for people."""
    console = Screen()
    table = Table(*HEAD, "", box=None, pad_edge=False, header_style="bold")
    for row in found.table():
        table.add_row(*row, style="yellow" if row[-1] else "")
    console.print(table)
    lines = [found.summary()]
    if found.jump is not None and (gone := found.decisions[found.jump].excluded):
        lines.append(f"Excluded there: {', '.join(names[i] for i in gone)}")
    lines += [f"the picture is in {out}"] if out else []
    console.print(Text("\n".join(lines)), soft_wrap=True)
