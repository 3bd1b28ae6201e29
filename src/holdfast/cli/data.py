"""holdfast data: which data sets are here, and what a split of one looks like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.data import SPLITS, Dataset, Share, count_classes, deal, load
from holdfast.data.download import download
from holdfast.data.picture import draw
from holdfast.data.sources import EMBEDDED, SOURCES, advice, find, known
from holdfast.spec import parse


@example("holdfast data digits --split 'Dirichlet(alpha=0.1)' --plot split.svg")
def data(
    name: Annotated[str, typer.Argument(help="A data set; without one, all are listed.")] = "",
    split: Annotated[str, typer.Option(help=f"How it is shared: {', '.join(SPLITS)}.")] = "Natural()",
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 20,
    train: Annotated[int | None, typer.Option(help="Training images a worker; all, evenly, unless given.")] = None,
    test: Annotated[int | None, typer.Option(help="Test images a worker; all, evenly, unless given.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same shares.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Where to look first, and where --get puts it.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw workers by classes into an svg, png or pdf file.")] = None,
    get: Annotated[bool, typer.Option("--get", help="Download the data set first.")] = False,
) -> None:
    """List the data sets; or tell the size of one and how a split shares it among workers."""
    if not name:
        Screen().print(listed(folder))
        return
    known(name)
    if get:
        say(f"{name} is in {fetched(name, folder)}")
    dataset = load(name, folder)
    how = parse(split, SPLITS, "split")
    shares = deal(dataset, how, workers, train, test, seed)
    say(describe_dataset(dataset))
    say(f"\n{how.written()} among {workers} workers, each with\n{summary(dataset, shares)}")
    if plot is not None:
        draw(dataset, shares, plot, f"{name}, {how.written()}")
        say(f"the picture is in {plot}")


def listed(folder: Path | None) -> Table:
    """Every data set with its official size, and where it is or what to do to have it."""
    columns = (Column("data set"), Column("images", justify="right"), Column("classes", justify="right"))
    table = Table(*columns, Column("where", overflow="fold"), box=None, pad_edge=False, header_style="bold")
    for name, source in SOURCES.items():
        place = find(name, folder)
        where = f"in {place[1]}" if place else known(name).get if name in EMBEDDED else advice(name, folder)
        table.add_row(name, str(source.images), str(len(source.classes)), escape(where))
    return table


def describe_dataset(dataset: Dataset) -> str:
    """Size, kind and class counts in a few lines."""
    sizes = dataset.sizes()
    parts = [f"{len(dataset)} images of shape {dataset.images.shape[1:]}, {dataset.images.dtype}"]
    parts.append(
        "no official split" if dataset.held_out is None else f"{int(dataset.held_out.sum())} official test images"
    )
    if dataset.writers is not None:
        parts.append(f"{int(dataset.writers.max()) + 1} writers")
    classes = ", ".join(f"{label} {count}" for label, count in zip(dataset.classes, sizes, strict=True))
    return f"{dataset.name}: {'; '.join(parts)}\n{len(sizes)} classes: {classes}"


def summary(dataset: Dataset, shares: list[Share]) -> str:
    """What a worker has, from the least to the most."""
    table = count_classes(dataset, shares)
    rows = (
        ("training images", [len(share.train) for share in shares]),
        ("test images", [len(share.test) for share in shares]),
        ("classes", (table > 0).sum(axis=1).tolist()),
        ("of its largest class", table.max(axis=1).tolist()),
    )
    spans = ((what, str(min(many)) if min(many) == max(many) else f"{min(many)} to {max(many)}") for what, many in rows)
    return "\n".join(f"  {what}: {span}" for what, span in spans)


def fetched(name: str, folder: Path | None) -> Path:
    """Download behind a bar that shows the current file."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Screen(stderr=True)) as bar:
        task = bar.add_task(name, visible=False)
        return download(name, folder, lambda done, total: bar.update(task, completed=done, total=total, visible=True))
