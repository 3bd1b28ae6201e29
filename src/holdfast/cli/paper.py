"""holdfast paper: every table and figure of Yi et al. 2024, measured again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.files import check_target
from holdfast.cli.live import carrier, counted, failures, varied, watch
from holdfast.cli.wide import Screen, say
from holdfast.cli.wide import console as printer
from holdfast.errors import BadInput, MissingExtra
from holdfast.experiments.board import estimate, spoken
from holdfast.experiments.paper import PAPERS, TABLES, Setting, available, everything, table
from holdfast.experiments.pool import cores
from holdfast.experiments.store import Entry, Store, key
from holdfast.experiments.sweep import Runs, sweep
from holdfast.report.page import put
from holdfast.report.paper import ASIDES, aside, compared, fuller, group
from holdfast.report.tables import html, latex, markdown, terminal
from holdfast.spec import unknown
from holdfast.training import Run

WHATS = ("table", "figure", "ablation", "cifar", "beyond", "votes", "draws", "readings", "toy", "all")
RATES = {"homogeneous": 0.4, "heterogeneous": 0.2, "beyond": 0.4}
ALL_RATES = ("votes", "draws", "readings", "toy", "all")  # that are of no one rate
CHARACTERS = ("femnist", "emnist")  # the sets of handwritten characters
WRITTEN = {".md": markdown, ".tex": latex, ".html": html}
DRAWN = (".svg", ".png", ".pdf")
ENDINGS = {"figure": DRAWN, "toy": DRAWN, **dict.fromkeys(ASIDES, (".md",))}


@example("holdfast paper table homogeneous --rate 0.4 --rounds 2 --dry-run")
def paper(
    what: Annotated[str, typer.Argument(help=", ".join(WHATS))],
    name: Annotated[str, typer.Argument(help="Of a table or figure: homogeneous or heterogeneous.")] = "homogeneous",
    rate: Annotated[float | None, typer.Option(help="0.1, 0.2 or 0.4: the share that lies.")] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Run only this row of the tables; may be repeated.")] = None,
    preset: Annotated[str, typer.Option(help="program: as theirs ran; text: as the paper reads.")] = "program",
    seeds: Annotated[int, typer.Option(help="Seeds; the paper has 5.", min=1)] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds of a training; the paper has 1,500.", min=1)] = 1500,
    vote_batch: Annotated[int, typer.Option(help="Images on which a worker votes.", min=1)] = 24,
    store: Annotated[Path, typer.Option(help="The folder of runs; running again goes on.")] = Path("paper-runs"),
    folder: Annotated[Path | None, typer.Option(help="Where FEMNIST (or EMNIST) and CIFAR-10 lie.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Instead of FEMNIST: emnist shows the same tables on its images.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time; 0: one a core.", min=0)] = 0,
    cluster: Annotated[str | None, typer.Option(help="Address of a Ray cluster.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file for the tables (.md .tex .html) or figure (.svg .png .pdf).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what is there, and run nothing.")] = False,
) -> None:
    """Measure the paper's evaluation again, next to its printed numbers (in brackets); see docs/paper.md.

    WHAT is table (of NAME: homogeneous, at rate 0.4 unless said, or heterogeneous, at 0.2), figure (of NAME, at 0.2),
    ablation, cifar, beyond (what the paper does not have), votes (how many images a vote needs), draws (of the
    heterogeneous split), readings (of the paper's "uniform"), toy (sneak and siege in numbers) or all. Says first how
    long it will take here. Interrupted or killed, the same command goes on where it was.
    """
    if what not in WHATS:
        raise BadInput(unknown(what, WHATS, "part of the paper"))
    if rate is not None and what in ALL_RATES:
        raise BadInput(f"--rate {rate} was given for {what}, which has its own rates; leave it out.")
    if rule and what in ALL_RATES:
        raise BadInput(f"--rule {rule[0]} was given for {what}, which has no rows to choose from; leave it out.")
    if out is not None:
        check_target(out, ENDINGS.get(what, WRITTEN))
    console = Screen(stderr=True)
    if what == "toy":
        _toy(out)
        return
    kept = Store(store)
    known = kept.read()[0] if store.exists() else []
    sets = _sets(folder, data, known if dry_run else [])
    setting = Setting(preset, rounds, seeds, vote_batch, sets=sets)
    names = _names(what, name, rate)
    if dry_run and data is None:  # show the data set of which more was measured
        setting = fuller(lambda one: _cells(names, one), setting, known)
        sets = dict(setting.sets)
    rows = _rows(rule, names)
    cells = [cell for one in names for cell in TABLES[one].runs(setting).items()]
    runs: Runs = {key(run): run for (row, *_), run in cells if row in rows}
    runs |= {key(run): run for run in ASIDES[what][0](setting).values()} if what in ASIDES else {}
    runs |= everything(setting) if what == "all" else {}
    done = {one.key for one in known if one.state == "done"}
    todo = {name: run for name, run in runs.items() if name not in done}
    needed = {TABLES[one].data for one in names} or {"femnist"}
    for wanted, found in sets.items():
        if wanted != found and wanted in needed and found != data:
            console.print(
                f"{wanted} is not there (holdfast data {wanted}), so {found} stands in; not the paper's numbers",
                soft_wrap=True,
            )
    console.print(Text(f"{len(runs)} trainings, {len(runs) - len(todo)} of them done: {store}"))
    failed = []
    if todo and not dry_run:
        failed = _run(todo, kept, folder, jobs, cluster, console)
        known = Store(store).read()[0]
    grids = [compared(one, setting, known) for one in names]
    text = aside(what, setting, known) if what in ASIDES else ""
    if out is not None and what != "figure":  # before anything is printed, for nobody may read on
        put(text or "\n".join(map(WRITTEN[out.suffix], grids)), out)
    for shown in grids:
        printer().print(terminal(shown))
    typer.echo(text, nl=False)
    if what == "figure":
        _figure(group(names[0], setting, known), out or Path(f"{name}.svg"))
    if failed:
        console.print(Text(f"the first that failed: {failed[0]}"), soft_wrap=True)
        raise typer.Exit(1)


def _cells(names: list[str], setting: Setting) -> dict[tuple[str, ...], Run]:
    """The runs of some tables."""
    tables = ((name, TABLES[name].runs(setting)) for name in names)
    return {(name, *map(str, cell)): run for name, runs in tables for cell, run in runs.items()}


def _rows(asked: list[str] | None, names: list[str]) -> list[str]:
    """The rows that are run: those that were asked for, or all."""
    known = list(dict.fromkeys(row for one in names for row in TABLES[one].rules))
    for row in asked or ():
        if row not in known:
            raise BadInput(unknown(row, known, "row of the table"))
    return asked or known


def _sets(folder: Path | None, data_set: str | None, known: Iterable[Entry]) -> dict[str, str]:
    """The data set on which each of the paper's is measured; runs that are known are shown without the data."""
    if data_set not in (None, *CHARACTERS):
        if Path(str(data_set)).is_dir():
            raise BadInput(f"--data {data_set} was given, which is a folder; name it by --folder {data_set}.")
        raise BadInput(unknown(str(data_set), CHARACTERS, "data set of the paper's characters"))
    measured = {one.run.data for one in known}
    sets = available(folder) | {one: one for one in PAPERS if one in measured}
    if "femnist" not in (sets["femnist"], data_set) and "emnist" in measured:
        sets["femnist"] = "emnist"
    return sets | ({"femnist": data_set} if data_set else {})


def _names(what: str, name: str, rate: float | None) -> list[str]:
    """The tables that are asked for."""
    if what in ("ablation", "cifar"):
        return [table(what, rate).name]
    if what == "beyond":
        return [one for one in TABLES if one.startswith(table(what, RATES[what] if rate is None else rate).name)]
    if what == "all":
        return list(TABLES)
    if what in ASIDES:
        return []
    usual = 0.2 if what == "figure" else RATES.get(name)
    return [table(name, usual if rate is None else rate).name]


def _run(todo: Runs, kept: Store, data: Path | None, jobs: int, cluster: str | None, console: Console) -> list[str]:
    """Carry them out; what failed, and why."""
    carry, many = carrier(cluster), jobs or cores()
    with console.status("timing a few rounds"):
        left = estimate(todo.values(), data, many)
    console.print(f"{len(todo)} to do: about {spoken(left)} with {many} at a time here")
    try:
        board = watch(sweep(todo, kept, jobs or None, data, True, carry), todo, console)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from there")
        raise typer.Abort from None
    console.print(counted(board))
    return failures(board, varied(todo))


def _figure(found: object, out: Path) -> None:
    try:
        from holdfast.report.plots import curves
    except ImportError:
        raise MissingExtra("a figure", "matplotlib", "plot") from None
    curves(found, out)  # type: ignore[arg-type]
    say(f"the figure is in {out}")


def _toy(out: Path | None) -> None:
    """Sneak and siege in numbers, and the picture if a file is given."""
    try:
        from holdfast.report.dilemma import draw, numbers
    except ImportError:
        raise MissingExtra("a picture", "matplotlib", "plot") from None
    say(numbers())
    if out is not None:
        draw(out)
        say(f"the picture is in {out}")
