"""holdfast runs: what is in a store, side by side, and as files for other programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import console
from holdfast.errors import BadInput, plural
from holdfast.experiments.export import COLUMNS, RECORD, Row, compared, picked, rows, tensorboard, write
from holdfast.experiments.store import STATES, Entry, Store
from holdfast.experiments.where import short
from holdfast.spec import unknown

DIGITS = {"accuracy": ".4f", "averaged": ".4f", "loss": ".4g", "seconds": ".1f"}
SHOWN = (*COLUMNS, "minutes", "done")


@example("holdfast runs runs")
def runs(
    store: Annotated[Path, typer.Argument(help="A folder of runs, or an archive of them (.jsonl).")],
    where: Annotated[
        list[str] | None, typer.Option(help="Only these: 'rule=Mean*', 'seed!=0', 'accuracy<0.5'; may be repeated.")
    ] = None,
    sort: Annotated[str, typer.Option(help="By these columns; -accuracy: from high to low.")] = "rule,attack,seed",
    columns: Annotated[str, typer.Option(help="Only these, such as rule,attack,seed,accuracy.")] = "",
    compare: Annotated[str, typer.Option(help="Accuracies of runs that differ in this field alone, in a line.")] = "",
    export: Annotated[Path | None, typer.Option(help="Write to a .csv, .json, .parquet or .jsonl file.")] = None,
    board: Annotated[Path | None, typer.Option("--tensorboard", help="Write event files to this folder.")] = None,
) -> None:
    """List the runs of a store, whether done, running, begun or failed; or compare them, or export them.

    STORE is a folder of runs, or an archive of them (.jsonl). Of the record, the table shows what differs among them.

    --where, --sort and --columns know all fields of a record, and key, state, accuracy, loss, averaged, outer, liars,
    skipped, rounds_done and seconds; --columns also minutes and done.
    """
    if compare and columns:
        raise BadInput("--compare was given together with --columns; it has its own columns, so leave one out.")
    entries, complaints = Store(store).read()
    chosen = require_runs(picked(entries, where or (), _split(sort)), len(entries), store, where or [], complaints)
    table = side_by_side(chosen, compare) if compare else listed(chosen, _names(columns))
    news = []
    if export:
        if export.exists() and export.samefile(store):
            raise BadInput(f"--export {export} is the store itself; name another file.")
        many = write(chosen, export)
        news.append(f"{many} {plural(many, 'run')} in {export}")
    if board:
        if store.resolve() in (board.resolve(), *board.resolve().parents):
            raise BadInput(f"--tensorboard {board} is in the store, where only runs are; name another folder.")
        tensorboard(chosen, Store(store), board)
        news.append(f"event files in {board}; see them with tensorboard --logdir {board}")
    show(table, [*summarise_states(chosen), *complaints, *news])


def require_runs(chosen: list[Entry], many: int, store: Path, where: list[str], complaints: list[str]) -> list[Entry]:
    """The runs, if there are any."""
    if chosen:
        return chosen
    if many:
        raise BadInput(
            f"{store} has {many} {plural(many, 'run')}, and none meets {' and '.join(where)}; ask for others."
        )
    if complaints:
        more = f" There {'are' if len(complaints) > 2 else 'is'} {len(complaints) - 1} more." * (len(complaints) > 1)
        raise BadInput(f"{complaints[0]}{more}")
    raise BadInput(f"{store} holds no runs; fill it with holdfast sweep.")


def _names(text: str) -> list[str]:
    names = _split(text)
    for name in names:
        if name not in SHOWN:
            raise BadInput(unknown(name, SHOWN, "column"))
    return names


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def listed(entries: list[Entry], names: Iterable[str] = ()) -> Table:
    """One line per run."""
    table_rows = rows(entries)
    named = ("key", "state", "rule", "attack")
    names = list(names) or [*named, *varying(table_rows, {*named, "rounds"}), "accuracy", "minutes", "done"]
    table = _table(names)
    for row in table_rows:
        table.add_row(*(Text(cell(row, name)) for name in names))
    return table


def varying(table_rows: list[Row], but: set[str]) -> list[str]:
    """The fields of the record in which the rows differ."""
    return [name for name in RECORD if name not in but and len({row.get(name) for row in table_rows}) > 1]


def cell(row: Row, name: str) -> str:
    """As people read it."""
    if name == "done":
        return f"{row['rounds_done']}/{row['rounds']}"
    if name == "minutes":
        return "" if row["seconds"] is None else f"{row['seconds'] / 60:.2f}"
    value = row[name]
    if value is None:
        return "None" if name in RECORD else ""
    if name in ("key", "rule"):
        return value[:8] if name == "key" else short(value)
    return format(value, DIGITS.get(name, ""))


def side_by_side(entries: list[Entry], field: str) -> Table:
    """A line for all runs that agree in the other fields, a column for each value of this one."""
    groups = compared(entries, field)
    values = list(dict.fromkeys(value for _, accuracies in groups for value in accuracies))
    if all(len(accuracies) < 2 for _, accuracies in groups):
        raise BadInput(f"no two of the {len(entries)} runs differ in {field} alone; compare another field.")
    if all(isinstance(value, (int, float)) for value in values):
        values.sort()
    names = varying([others for others, _ in groups], {field})
    table = _table([*names, *(short(str(value)) for value in values), "best - worst"])
    for others, accuracies in groups:
        known = [value for value in accuracies.values() if value is not None]
        apart = f"{max(known) - min(known):.4f}" if len(known) > 1 else ""
        cells = ("" if accuracies.get(value) is None else f"{accuracies[value]:.4f}" for value in values)
        table.add_row(*(Text(cell(others, name)) for name in names), *cells, apart)
    return table


def _table(names: list[str]) -> Table:
    heads = (Column(Text(name), overflow="fold", no_wrap=name in ("key", "state")) for name in names)
    return Table(*heads, box=None, pad_edge=False, header_style="bold")


def summarise_states(entries: list[Entry]) -> list[str]:
    """How many runs there are in each state, and why some failed."""
    many = Counter(one.state for one in entries)
    failed = [f"{one.key[:8]} failed: {' '.join(one.why.split())}" for one in entries if one.state == "failed"]
    return [", ".join(f"{many[state]} {state}" for state in STATES if many[state]), *failed]


def show(table: Table, lines: list[str]) -> None:
    """As wide as a terminal, or as need be."""
    shown = console()
    shown.print(table)
    for line in ("", *lines):
        shown.print(Text(line), soft_wrap=True)
