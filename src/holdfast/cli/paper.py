"""holdfast paper: every table and figure of Yi et al. 2024, measured again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from holdfast.cli.files import check_target
from holdfast.cli.live import carrier, counted, failures, varied, watch
from holdfast.cli.paper_options import RUNS, PartOptions, SeedsOption, StoreOption, takes_part_options
from holdfast.cli.paper_parts import Part, cells_of, sets_of
from holdfast.cli.wide import Screen, say
from holdfast.cli.wide import console as printer
from holdfast.errors import MissingExtra, listing
from holdfast.experiments.paper import PAPERS, TABLES, Setting
from holdfast.experiments.pool import cores
from holdfast.experiments.progress import estimate, spoken
from holdfast.experiments.store import Entry, Store
from holdfast.experiments.sweep import Runs, sweep
from holdfast.report.agreement import HEADS, Agreement, agreements
from holdfast.report.agreement import draw as draw_agreement
from holdfast.report.groups import Group
from holdfast.report.page import put
from holdfast.report.paper import ASIDES, aside, compared, fuller, group
from holdfast.report.tables import html, latex, markdown, terminal

WRITTEN = {".md": markdown, ".tex": latex, ".html": html}
DRAWN = (".svg", ".png", ".pdf")
ENDINGS = {"figure": DRAWN, **dict.fromkeys(ASIDES, (".md",))}

paper = typer.Typer(
    help="The paper's evaluation, measured again, next to its printed numbers; see docs/paper.md.",
    no_args_is_help=True,
    add_completion=False,
)


@paper.command(epilog="Example:  holdfast paper run votes --rounds 2 --jobs 2")
@takes_part_options
def run(
    options: PartOptions,
    folder: Annotated[Path | None, typer.Option(help="Where FEMNIST (or EMNIST) and CIFAR-10 lie.")] = None,
    jobs: Annotated[int, typer.Option(help="Runs at a time; 0: one a core.", min=0)] = 0,
    cluster: Annotated[str | None, typer.Option(help="Address of a Ray cluster.")] = None,
) -> None:
    """Measure a part of the paper's evaluation again, then show it next to the printed numbers (in brackets).

    WHAT is table (of NAME: homogeneous, at rate 0.4 unless said, or heterogeneous, at 0.2), figure (of NAME, at 0.2),
    ablation, cifar, beyond (what the paper does not have), votes (how many images a vote needs), draws (of the
    heterogeneous split), readings (of the paper's "uniform") or all. Says first how long it will take here.
    Interrupted or killed, the same command goes on where it was.
    """
    sets = sets_of(folder, options.data, [])
    request = options.part(sets)
    _check_out(options)
    console, store = Screen(stderr=True), Store(options.store)
    known = store.read()[0] if options.store.exists() else []
    done = {one.key for one in known if one.state == "done"}
    runs = request.runs()
    todo = {name: run for name, run in runs.items() if name not in done}
    needed = {TABLES[one].data for one in request.names} or {"femnist"}
    for wanted, used in sets.items():
        if wanted != used and wanted in needed and used != options.data:
            console.print(
                f"{wanted} is not there (holdfast data {wanted}), so {used} stands in; not the paper's numbers",
                soft_wrap=True,
            )
    console.print(Text(f"{len(runs)} trainings, {len(runs) - len(todo)} of them done: {options.store}"))
    failed = []
    if todo:
        failed = _run(todo, store, folder, jobs=jobs, cluster=cluster, console=console)
        known = store.read()[0]
    _print(request, known, options.out)
    if failed:
        console.print(Text(f"the first that failed: {failed[0]}"), soft_wrap=True)
        raise typer.Exit(1)


@paper.command(epilog="Example:  holdfast paper show table homogeneous --rate 0.4 --store results/paper/runs.jsonl")
@takes_part_options
def show(options: PartOptions) -> None:
    """Show what was measured of a part of the paper, next to the printed numbers (in brackets), and run nothing.

    WHAT and NAME are as for `holdfast paper run`. Unless --data says which, the data set is shown of which more was
    measured.
    """
    known = Store(options.store).read()[0] if options.store.exists() else []
    request = options.part(sets_of(None, options.data, known))
    _check_out(options)
    if options.data is None:
        request = replace(request, setting=fuller(lambda one: cells_of(request.names, one), request.setting, known))
    done = {one.key for one in known if one.state == "done"}
    runs = request.runs()
    Screen(stderr=True).print(Text(f"{len(runs)} trainings, {len(runs.keys() & done)} of them done: {options.store}"))
    _print(request, known, options.out)


@paper.command(epilog="Example:  holdfast paper verify --store results/paper/runs.jsonl")
def verify(
    store: StoreOption = RUNS,
    seeds: SeedsOption = 1,
    out: Annotated[Path | None, typer.Option(help="A picture of all cells (.svg .png .pdf).")] = None,
) -> None:
    """Say how far each table agrees with the paper, and which cells are missing.

    Everything is drawn again from the store or archive, in seconds. Rank correlation is that of the rules under one
    attack, averaged over the attacks.
    """
    if out is not None:
        check_target(out, DRAWN)
    known = Store(store).read()[0]
    checked = list(agreements(Setting(seeds=seeds), known))
    table = RichTable(*HEADS, box=None, pad_edge=False, header_style="bold")
    for one in checked:
        table.add_row(*one.row())
    Screen().print(table)
    if out is not None:
        draw_agreement(checked, out)
        say(f"the picture is in {out}")
    ours = [one for one in checked if one.data in PAPERS]
    missing = [f"{one.table}: {listing(' under '.join(cell) for cell in one.missing)}" for one in ours if one.missing]
    say(f"{sum(len(one.pairs) for one in ours)} of the paper's {_printed(ours)} results are measured on its data sets")
    for line in missing:
        say(f"missing in {line}")


@paper.command(epilog="Example:  holdfast paper toy")
def toy(out: Annotated[Path | None, typer.Option(help="A file for the picture (.svg .png .pdf).")] = None) -> None:
    """Print sneak and siege in numbers: the dilemma that two phases solve."""
    if out is not None:
        check_target(out, DRAWN)
    _toy(out)


def _check_out(options: PartOptions) -> None:
    """Refuse a file for the tables or the figure that could not be written."""
    if options.out is not None:
        check_target(options.out, ENDINGS.get(options.what, WRITTEN))


def _printed(checked: Iterable[Agreement]) -> int:
    return sum(len(one.pairs) + len(one.missing) for one in checked)


def _print(request: Part, known: list[Entry], out: Path | None) -> None:
    """The tables or the figure, to a file if one is named."""
    grids = [compared(one, request.setting, known) for one in request.names]
    text = aside(request.what, request.setting, known) if request.what in ASIDES else ""
    if out is not None and request.what != "figure":  # before anything is printed, for nobody may read on
        put(text or "\n".join(map(WRITTEN[out.suffix], grids)), out)
    for shown in grids:
        printer().print(terminal(shown))
    typer.echo(text, nl=False)
    if request.what == "figure":
        _figure(group(request.names[0], request.setting, known), out or Path(f"{request.name}.svg"))


def _run(todo: Runs, store: Store, data: Path | None, *, jobs: int, cluster: str | None, console: Console) -> list[str]:
    """Carry them out; what failed, and why."""
    carry, many = carrier(cluster), jobs or cores()
    with console.status("timing a few rounds"):
        left = estimate(todo.values(), data, many)
    console.print(f"{len(todo)} to do: about {spoken(left)} with {many} at a time here")
    try:
        progress = watch(sweep(todo, store, jobs or None, data, retry_failed=True, carry=carry), todo, console)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from there")
        raise typer.Abort from None
    console.print(counted(progress))
    return failures(progress, varied(todo))


def _figure(group: Group, out: Path) -> None:
    try:
        from holdfast.report.plots import curves
    except ImportError:
        raise MissingExtra("a figure", "matplotlib", "plot") from None
    curves(group, out)
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
