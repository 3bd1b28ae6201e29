"""Runs as flat rows: to choose from and compare, and as files for programs that know nothing of holdfast."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.disk import write_whole
from holdfast.errors import BadInput, MissingExtra
from holdfast.experiments.store import Entry, Store, key
from holdfast.experiments.where import meets, short
from holdfast.spec import unknown
from holdfast.training import Run
from holdfast.training.folder import lines_of, read_record

Row = dict[str, Any]
RECORD = {one.name: str(one.type).partition(" ")[0] for one in fields(Run)}
MEASURED = dict.fromkeys(("accuracy", "loss", "averaged", "outer", "liars"), "float")
COLUMNS = {
    "key": "str",
    "state": "str",
    **RECORD,
    **MEASURED,
    "skipped": "int",
    "rounds_done": "int",
    "seconds": "float",
}
EVALUATED, EVERY_ROUND = ("accuracy", "loss", "gradient_norm"), ("norm", "margin", "lead", "liars")


def rows(entries: Iterable[Entry]) -> list[Row]:
    """A flat row a run, with the names of COLUMNS: its record, and what came of it; None: not known."""
    return [_row(one) for one in entries]


def _row(entry: Entry) -> Row:
    last = entry.evaluations[-1] if entry.state == "done" and entry.evaluations else {}
    known = {
        **entry.facts,
        **last,
        "key": entry.key,
        "state": entry.state,
        "seconds": entry.seconds,
        **entry.run.record(),
    }
    return {name: known.get(name) for name in COLUMNS} | {"rounds_done": entry.facts.get("rounds")}


def picked(entries: Sequence[Entry], where: Iterable[str] = (), sort: Iterable[str] = ()) -> list[Entry]:
    """Those that meet all conditions, by columns from low to high or, as in '-accuracy', from high to low.

    What is not known comes last.
    """
    tests = [meets(text, COLUMNS) for text in where]
    pairs = [(row, one) for row, one in zip(rows(entries), entries, strict=True) if all(test(row) for test in tests)]
    for word in reversed(list(sort)):
        if (column := word.removeprefix("-")) not in COLUMNS:
            raise BadInput(unknown(column, COLUMNS, "column"))
        known = [pair for pair in pairs if pair[0][column] is not None]
        known.sort(key=lambda pair: pair[0][column], reverse=word != column)
        pairs = known + [pair for pair in pairs if pair[0][column] is None]
    return [one for _, one in pairs]


def compared(entries: Iterable[Entry], field: str) -> list[tuple[Row, dict[Any, float | None]]]:
    """Runs that differ in one field alone, side by side: what they agree in, and the accuracy for each value."""
    if field not in RECORD:
        raise BadInput(unknown(field, RECORD, "field of a run"))
    groups: dict[str, tuple[Row, dict[Any, float | None]]] = {}
    for entry in entries:
        others = entry.run.record()
        value = others.pop(field)
        _, accuracies = groups.setdefault(json.dumps(others), (others, {}))
        accuracies[value] = entry.accuracy if accuracies.get(value) is None else accuracies[value]
    return list(groups.values())


def write(entries: Iterable[Entry], out: Path | str) -> int:
    """To a .csv, .json, .parquet or .jsonl file, whole or not at all; how many.

    A .jsonl file is an archive, which is a store again; it has the runs that are done.
    """
    out, chosen = Path(out), list(entries)
    if (ending := out.suffix.lower()) not in WRITERS:
        raise BadInput(f"{out} was given to write runs to; the formats are {', '.join(WRITERS)}.")
    if ending == ".jsonl":
        done = {one.key: one for one in chosen if one.state == "done"}
        chosen = [done[name] for name in sorted(done)]
    if not chosen:
        raise BadInput(f"{out} was given no run{' that is done' * (ending == '.jsonl')}, so it is not written.")
    data = WRITERS[ending](chosen)
    try:
        write_whole(out, data)
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({error.strerror}); make room or name another file.") from None
    return len(chosen)


def _csv(entries: list[Entry]) -> bytes:
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows(entries))
    return text.getvalue().encode()


def _parquet(entries: list[Entry]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("a .parquet file", "pyarrow") from None
    kinds = {"int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds.get(kind, pyarrow.string())) for name, kind in COLUMNS.items()])
    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows(entries), schema=schema), file)
    return file.getvalue()


WRITERS: dict[str, Callable[[list[Entry]], bytes]] = {
    ".csv": _csv,
    ".json": lambda entries: (json.dumps(rows(entries), indent=1) + "\n").encode(),
    ".parquet": _parquet,
    ".jsonl": lambda entries: "".join(f"{one.text()}\n" for one in entries).encode(),
}


def tensorboard(entries: Iterable[Entry], store: Store, folder: Path | str) -> int:
    """Event files, in one folder per run: what was evaluated and, if the store is a folder, every round; how many runs.

    The steps are the rounds done. Doing it again replaces what was there.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        missing = (error.name or "tensorboard").partition(".")[0]
        raise MissingExtra("a file for TensorBoard", missing) from None
    places, by_key = _places(store), {one.key: one for one in entries}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, one in by_key.items():
            with tempfile.TemporaryDirectory(dir=folder, prefix=".") as beside:
                with SummaryWriter(beside) as board:
                    for step, tag, value in _scalars(one, places.get(name)):
                        board.add_scalar(tag, value, step)
                _moved(Path(beside), Path(folder) / _name(one))
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); make room or name another folder.") from None
    return len(by_key)


def _places(store: Store) -> dict[str, Path]:
    """Where runs lie: a folder need not be named by the key."""
    places = {}
    for place in store.path.iterdir() if store.path.is_dir() else ():
        with suppress(BadInput):  # the store complains of it
            places[key(read_record(place))] = place
    return places


def _scalars(entry: Entry, place: Path | None) -> Iterator[tuple[int, str, float]]:
    for line in entry.evaluations:
        yield from ((line["round"], tag, line[tag]) for tag in EVALUATED if line.get(tag) is not None)
    for line in lines_of(place) if place else ():
        yield from ((line["round"] + 1, tag, line[tag]) for tag in EVERY_ROUND if line.get(tag) is not None)


def _name(entry: Entry) -> str:
    """What TensorBoard calls the run."""
    parts = (short(repr(entry.run.rule))[:80], repr(entry.run.attack)[:80], entry.key[:8])
    return re.sub(r"[^\w.,=()-]+", "_", "-".join(parts))


def _moved(source: Path, target: Path) -> None:
    """Replace a run's event files. TensorBoard writes and names them itself, so `write_whole` cannot."""
    target.mkdir(exist_ok=True)
    for old in target.glob("events.out.tfevents.*"):
        old.unlink()
    for new in source.iterdir():
        os.replace(new, target / new.name)
