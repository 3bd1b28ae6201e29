"""The parts of the paper that a command can name: which tables, which runs, on which data sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import BadInput
from holdfast.experiments.paper import PAPERS, TABLES, Setting, available, everything, table
from holdfast.experiments.store import Entry, key
from holdfast.experiments.sweep import Runs
from holdfast.report.paper import ASIDES
from holdfast.spec import unknown
from holdfast.training import Run

WHATS = ("table", "figure", "ablation", "cifar", "beyond", "votes", "draws", "readings", "all")
RATES = {"homogeneous": 0.4, "heterogeneous": 0.2, "beyond": 0.4}
ALL_RATES = ("votes", "draws", "readings", "all")  # that are of no one rate
CHARACTERS = ("femnist", "emnist")  # the sets of handwritten characters


@dataclass(frozen=True)
class Part:
    """Which part of the paper, at which size."""

    what: str
    name: str
    rate: float | None
    rule: list[str] | None
    setting: Setting
    data: str | None

    def __post_init__(self) -> None:
        if self.what not in WHATS:
            raise BadInput(unknown(self.what, WHATS, "part of the paper"))
        if self.rate is not None and self.what in ALL_RATES:
            raise BadInput(f"--rate {self.rate} was given for {self.what}, which has its own rates; leave it out.")
        if self.rule and self.what in ALL_RATES:
            raise BadInput(f"--rule {self.rule[0]} was given for {self.what}, which has no rows; leave it out.")

    @property
    def names(self) -> list[str]:
        """The tables that are asked for."""
        return _names(self.what, self.name, self.rate)

    def runs(self) -> Runs:
        """All trainings that are asked for, by their keys."""
        rows = _rows(self.rule, self.names)
        cells = [cell for one in self.names for cell in TABLES[one].runs(self.setting).items()]
        chosen: Runs = {key(run): run for (row, *_), run in cells if row in rows}
        chosen |= {key(run): run for run in ASIDES[self.what][0](self.setting).values()} if self.what in ASIDES else {}
        return chosen | (everything(self.setting) if self.what == "all" else {})


def cells_of(names: list[str], setting: Setting) -> dict[tuple[str, ...], Run]:
    """The runs of some tables."""
    tables = ((name, TABLES[name].runs(setting)) for name in names)
    return {(name, *map(str, cell)): run for name, runs in tables for cell, run in runs.items()}


def _rows(wanted: list[str] | None, names: list[str]) -> list[str]:
    """The rows that are run: those that were asked for, or all."""
    known = list(dict.fromkeys(row for one in names for row in TABLES[one].rules))
    for row in wanted or ():
        if row not in known:
            raise BadInput(unknown(row, known, "row of the table"))
    return wanted or known


def sets_of(folder: Path | None, data_set: str | None, known: Iterable[Entry]) -> dict[str, str]:
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
