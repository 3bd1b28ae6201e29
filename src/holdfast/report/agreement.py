"""How far the measured accuracies agree with the printed ones, table by table, and a picture of all cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from holdfast.experiments.paper import ON_EMNIST, ORDER, TABLES, Cell, Setting, measured, printed
from holdfast.experiments.store import Entry
from holdfast.figures import new_figure, save_figure

ROUNDING = 0.005  # of printed numbers
FEW_RULES = 4  # below which ranks say nothing


@dataclass(frozen=True)
class Agreement:
    """One table on one data set.

    `difference` is the mean absolute difference of the accuracies, `correlation` the rank correlation of the rules
    under one attack, averaged over the attacks, and `within` the share of cells that differ by at most two of the
    paper's standard deviations. None: too little was measured.
    """

    table: str
    data: str
    pairs: Mapping[Cell, tuple[float, float]]  # ours and theirs
    missing: Sequence[Cell]
    difference: float | None
    correlation: float | None
    within: float | None

    def row(self) -> list[str]:
        """As a line of a table."""
        share = None if self.within is None else f"{self.within:.0%}"
        numbers = (None if one is None else f"{one:.3f}" for one in (self.difference, self.correlation))
        return [self.table, self.data, f"{len(self.pairs)} of {len(self.pairs) + len(self.missing)}"] + [
            one or "–" for one in (*numbers, share)
        ]


HEADS = ["table", "data set", "cells", "mean absolute difference", "rank correlation", "within 2 deviations"]


def agreements(setting: Setting, entries: Iterable[Entry]) -> Iterator[Agreement]:
    """The tables of the paper, on each data set on which something was measured, or on the paper's."""
    entries = list(entries)
    for name in [*ORDER, *(name for name in TABLES if name not in ORDER)]:
        attacks = TABLES[name].attacks  # the printed tables also have a column of the worst one
        cells = {(rule, attack): value for (table, rule, attack), value in printed().items() if table == name}
        theirs = {cell: value for cell, value in cells.items() if cell[1] in attacks}
        if not theirs:
            continue  # beyond the paper
        sets = [setting.sets, ON_EMNIST] if TABLES[name].data == "femnist" else [setting.sets]
        for data_sets in sets:
            measurements = measured(name, replace(setting, sets=data_sets), entries)
            if any(measurements.values()) or data_sets is setting.sets:
                yield _agreement(name, data_sets[TABLES[name].data], measurements, theirs)


def _agreement(
    name: str, data: str, measurements: Mapping[Cell, list[float]], theirs: Mapping[Cell, tuple[float, float | None]]
) -> Agreement:
    pairs = {cell: (fmean(measurements[cell]), value) for cell, (value, _) in theirs.items() if measurements.get(cell)}
    off = {cell: abs(ours - value) for cell, (ours, value) in pairs.items()}
    near = [gap <= 2 * std + ROUNDING for cell, gap in off.items() if (std := theirs[cell][1]) is not None]
    ranks = [one for attack in TABLES[name].attacks if (one := _correlation(pairs, attack)) is not None]
    return Agreement(
        name,
        data,
        pairs,
        [cell for cell in theirs if cell not in pairs],
        fmean(off.values()) if off else None,
        fmean(ranks) if ranks else None,
        fmean(near) if near else None,
    )


def _correlation(pairs: Mapping[Cell, tuple[float, float]], attack: str) -> float | None:
    """Spearman's rank correlation of the rules under one attack."""
    values = np.array([pair for (_, against), pair in pairs.items() if against == attack])
    if len(values) < FEW_RULES:
        return None
    ranks = np.stack([_ranks(column) for column in values.T])
    if (ranks.std(axis=1) == 0).any():  # all alike: no order
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values share theirs.

    >>> _ranks(np.array([0.5, 0.2, 0.5]))
    array([1.5, 0. , 1.5])
    """
    return (values[:, None] > values).sum(axis=1) + ((values[:, None] == values).sum(axis=1) - 1) / 2


def draw(shown: Iterable[Agreement], out: Path) -> None:
    """Printed against measured, a point for each cell."""
    figure = new_figure(6.0, 5.4)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, zorder=1)
    for agreement in shown:
        if agreement.pairs:
            ours, theirs = zip(*agreement.pairs.values(), strict=True)
            axes.scatter(theirs, ours, s=14, alpha=0.75, label=f"{agreement.table}, {agreement.data}", zorder=2)
    axes.set(xlabel="accuracy, printed", ylabel="accuracy, measured", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(fontsize=7, loc="upper left")
    save_figure(figure, out)
