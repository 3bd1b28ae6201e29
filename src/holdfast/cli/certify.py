"""holdfast certify, replay and certificate: searching for the worst round, showing it again, and judging one round."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress
from rich.table import Table

from holdfast.cli.example import example
from holdfast.cli.excess import advising
from holdfast.cli.files import load_all
from holdfast.cli.weighing import CapOption, WeightsOption, load_weights
from holdfast.cli.wide import Screen, say
from holdfast.decision import Decision
from holdfast.errors import BadInput, listing
from holdfast.guarantees.bounds import bounds, number, tolerance
from holdfast.guarantees.certificate import certificate as certified
from holdfast.guarantees.certify import Search
from holdfast.guarantees.certify import search as find_worst
from holdfast.guarantees.criteria import CRITERIA, SPREADS
from holdfast.guarantees.saved import replayed, resumed, save
from holdfast.guarantees.searches import Found
from holdfast.jsonable import to_json
from holdfast.spec import parse_rule
from holdfast.structure import majority


@example("holdfast certify 'CenterwO(f=2)' --n 5 --d 2 --budget 1000 --out worst.npz")
def certify(
    rule: Annotated[str, typer.Argument(help="As `holdfast rules` lists them.")],
    n: Annotated[int, typer.Option("--n", help="Workers; few, since every set of n - f of them is looked at.")] = 7,
    f: Annotated[int | None, typer.Option("--f", help="Liars, for a rule without an f.")] = None,
    d: Annotated[int, typer.Option("--d", help="Coordinates.")] = 2,
    budget: Annotated[int, typer.Option(help="Rounds to try for each criterion; structured ones always are.")] = 20_000,
    criterion: Annotated[str, typer.Option(help="lambda, kappa or xi; all three if it is left out.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="The same seed finds the same round.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where the worst round goes (npz); resumes.")] = None,
) -> None:
    """Search for the round that is worst for a rule; print it beside the proved constant and the least possible.

    --out FILE.npz keeps the worst round of one criterion, and goes on from there if it is run again with the same
    words; with all three criteria it becomes FILE-kappa.npz and so on. `holdfast replay FILE.npz` shows it.
    """
    if out is not None and (out.suffix != ".npz" or not out.parent.is_dir()):
        raise BadInput(f"--out {out} was given; name an .npz file in a folder that exists.")
    lie = tolerance(parse_rule(rule), n, f)
    searches = [Search(rule, n, lie, d, search, budget, seed) for search in ([criterion] if criterion else SPREADS)]
    proved = bounds(parse_rule(rule), n, f, d)
    table = Table("criterion", "worst found", "proved", "no rule below", "rounds tried", box=None, header_style="bold")
    with Progress(transient=True, console=Screen(stderr=True)) as bar:
        for search in searches:
            result = _carried_out(search, _place(out, search, len(searches)), bar)
            promise = proved[search.criterion]
            ours = number(promise.ours.value if promise.ours else None)
            table.add_row(
                CRITERIA[search.criterion], number(result.value), ours, number(promise.least), str(result.tried)
            )
            if promise.ours and result.value > promise.ours.value * (1 + 1e-6):
                beyond = f"{result.value:.6g}, beyond the proved {promise.ours.value:.6g}"
                raise BadInput(f"{rule} has a round of {beyond}: the proof or the rule is wrong, please report it.")
    Screen().print(table)


def _place(out: Path | None, search: Search, many: int) -> Path | None:
    return out if out is None or many == 1 else out.with_name(f"{out.stem}-{search.criterion}.npz")


def _carried_out(search: Search, out: Path | None, bar: Progress) -> Found:
    """The whole search, with its best round saved after every climb."""
    known = resumed(out, search) if out is not None and out.exists() else None
    task = bar.add_task(CRITERIA[search.criterion], total=search.budget, completed=known.tried if known else 0)
    for result in find_worst(search, known):
        known = result
        bar.update(task, completed=result.tried, description=f"{CRITERIA[search.criterion]} {result.value:.4g}")
        if out is not None:
            save(out, search, result)
    assert known is not None
    return known


@example("holdfast replay worst.npz")
def replay(file: Annotated[Path, typer.Argument(help="What `holdfast certify --out` saved.")]) -> None:
    """Show a saved round again: the vectors, who is honest in the worst case, the answer, and the ratio."""
    search, result, worst, answer = replayed(file)
    table = Table("worker", "honest", "vector", box=None, header_style="bold")
    for i, x in enumerate(result.X):
        table.add_row(str(i), "yes" if i in worst.honest else "no", _vector(x))
    mean = result.X[list(worst.honest)].mean(axis=0)
    console = Screen()
    console.print(table)
    console.print(f"honest mean  {_vector(mean)}\nanswer       {_vector(answer)}", highlight=False)
    ratio = f"{CRITERIA[search.criterion]} = {number(worst.value)} for {search.rule}, saved as {number(result.value)}"
    console.print(ratio, highlight=False)


def _vector(x: np.ndarray) -> str:
    return " ".join(f"{value:.6g}" for value in x[:8]) + (" ..." if len(x) > 8 else "")


@example("holdfast certificate 'MeanwO(f=4)' sample/worker-*.npz --bound")
def certificate(
    rule: Annotated[str, typer.Argument(help="As `holdfast rules` lists them.")],
    files: Annotated[list[Path], typer.Argument(help="A file a worker, or one file with a row a worker.")],
    f: Annotated[int | None, typer.Option("--f", help="Liars, for a rule without an f.")] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also say what no answer can be below; and look longer for a small κ.")
    ] = False,
    weights: WeightsOption = None,
    share: CapOption = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For rules that draw at random.")] = None,
    max_bytes: Annotated[
        int | None, typer.Option(min=1, help="The most that a file may unpack to; else by the other files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one line of JSON.")] = False,
) -> None:
    """Aggregate one round and say what is certain about the answer, for every possible set of liars.

    FILES are as for `holdfast aggregate`. Each statement comes with its assumption; no server can bound the
    distance to the mean of every possible honest set. With --weights, liars are any workers who hold no more than the
    f heaviest do.
    """
    chosen = parse_rule(rule)
    if chosen.random and seed is None:
        raise BadInput(f"{chosen!r} draws at random; add --seed 1.")
    updates, names = load_all(files, max_bytes=max_bytes)
    rng = None if seed is None else np.random.default_rng(seed)
    like = majority(updates) if isinstance(updates, list) else None
    masses = load_weights(weights, names, f if chosen.tolerance() is None else chosen.tolerance(), share)
    with advising("mend the workers, or raise f"):
        decision = chosen.decide(updates, rng=rng, like=like, names=names, weights=masses)
    certificate_found = certified(decision, updates, f=f, sharp=bound, bound=bound)
    dropped = {names[i]: why for i, why in decision.dropped.items()}
    if as_json:
        fields: dict[str, Any] = asdict(certificate_found) | {
            "within": certificate_found.within(),
            "dropped": dropped,
            "note": decision.note,
        }
        say(json.dumps(to_json(fields), allow_nan=False))
    else:
        say("\n".join([str(certificate_found), *_missing(dropped, decision)]))


def _missing(dropped: dict[str, str], decision: Decision) -> list[str]:
    """Who is not in the certificate and why, and that f was lowered for it."""
    who = [" ".join(f"{name} ({why.rstrip('.')})".split()) for name, why in dropped.items()]
    lines = [f"{len(who)} of {decision.n} dropped: {listing(who)}."] if who else []
    return lines + ([f"{decision.note}."] if decision.note else [])
