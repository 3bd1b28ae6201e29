"""Accuracies by rule and attack, over seeds; the worst of a row and the best of a column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, pstdev

from holdfast.errors import BadInput
from holdfast.experiments.store import Entry
from holdfast.report.groups import At, caption, groups
from holdfast.report.groups import label as label

__all__ = ["Grid", "grid", "grids"]

WORST, HONEST = "Worst", ("NoAttack", "none")  # a column of every grid; columns that have no part in it


@dataclass(frozen=True)
class Cell:
    """The accuracies of one rule under one attack.

    Parameters
    ----------
    values : tuple of float
        One accuracy for each seed.
    reference : float or None
        What somebody else reports.

    Examples
    --------
    >>> from holdfast.report.grid import Cell
    >>> Cell((0.5, 0.7), reference=0.65).difference
    -0.05
    """

    values: tuple[float, ...] = ()
    reference: float | None = None

    @property
    def n(self) -> int:
        """How many accuracies there are."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """Their mean; None if there are none."""
        return fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """Their standard deviation over the seeds that there are (divided by n); None for a single one."""
        return pstdev(self.values) if self.n > 1 else None

    @property
    def difference(self) -> float | None:
        """The difference to the reference, between the numbers as they are shown."""
        if self.mean is None or self.reference is None:
            return None
        return round(round(self.mean, 2) - round(self.reference, 2), 2)


@dataclass(frozen=True, eq=False)
class Grid:
    """Rows and columns of cells; `grid[row, column]` is an empty cell where nothing is known, and knows Worst.

    Parameters
    ----------
    title : str
        What differs from other grids.
    rows : list of str
        The rules.
    columns : list of str
        The attacks.
    cells : mapping from (row, column) to Cell
        What is known.
    caption : str
        What all runs have in common.
    worst : bool
        Whether a column Worst is worked out, and the best row told. Not where rows are no rules.
    full : float
        The number that has the brightest shade in a heat map.
    corner : str
        What the rows are.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> table = grid("", {("CWTM", "SF"): [0.5, 0.7], ("CWM", "SF"): [0.9]})
    >>> table["CWTM", "SF"].mean, table.best("SF")
    (0.6, {'CWM'})
    """

    title: str
    rows: list[str]
    columns: list[str]
    cells: Mapping[At, Cell]
    caption: str = ""
    worst: bool = True
    full: float = 1.0
    corner: str = "rule"

    def __getitem__(self, at: At) -> Cell:
        row, column = at
        if column != WORST:
            return self.cells.get(at, Cell())
        attacked = [self[row, one] for one in self.attacked]
        means, theirs = [cell.mean for cell in attacked], [cell.reference for cell in attacked]
        said = self.cells.get(at, Cell()).reference
        lowest, least = _least(means), said if said is not None else _least(theirs)
        return Cell(() if lowest is None else (lowest,), least)

    @property
    def attacked(self) -> list[str]:
        """The columns in which somebody lies."""
        return [column for column in self.columns if self.worst and column not in HONEST]

    def best(self, column: str) -> set[str]:
        """Return the rows of a column's largest mean, to two decimals; nobody while some are not known.

        Parameters
        ----------
        column : str
            The column.

        Returns
        -------
        set of str
            The rows.
        """
        if not self.worst:  # then rows are no rules
            return set()
        means = {row: round(mean, 2) for row in self.rows if (mean := self[row, column].mean) is not None}
        return {row for row, mean in means.items() if mean == max(means.values()) and len(means) == len(self.rows)}


def _least(values: list[float | None]) -> float | None:
    """The smallest; None unless all are known."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def grid(
    title: str,
    values: Mapping[At, Iterable[float]],
    reference: Mapping[At, float] | None = None,
    caption: str = "",
) -> Grid:
    """Return a grid of accuracies, and of reported ones where there are any.

    Parameters
    ----------
    title : str
        The title.
    values : mapping from (row, column) to iterable of float
        The accuracies. Rows and columns stand in the order of their coming.
    reference : mapping from (row, column) to float, optional
        What somebody else reports.
    caption : str
        What all runs have in common.

    Returns
    -------
    Grid
        The grid.

    Raises
    ------
    BadInput
        If a column is named Worst; the grid works it out.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> grid("", {("CWTM", "SF"): [0.5, 0.7], ("CWTM", "LF"): [0.9]})["CWTM", "Worst"].values
    (0.6,)
    """
    reference = reference or {}
    keys = list(dict.fromkeys([*values, *reference]))
    if any(column == WORST for _, column in values):
        raise BadInput(f"a grid was given a column {WORST!r} of values; it is worked out, leave it to the grid.")
    cells = {at: Cell(tuple(values.get(at, ())), reference.get(at)) for at in keys}
    columns = dict.fromkeys(column for _, column in keys if column != WORST)
    return Grid(title, list(dict.fromkeys(row for row, _ in keys)), list(columns), cells, caption)


def grids(entries: Iterable[Entry]) -> list[Grid]:
    """Return a grid for each group of runs.

    Parameters
    ----------
    entries : iterable of Entry
        The runs of a store.

    Returns
    -------
    list of Grid
        The title says what differs, the caption what does not.

    Examples
    --------
    >>> from holdfast import Run
    >>> from holdfast.experiments.store import Entry, key
    >>> from holdfast.report.grid import grids
    >>> run = Run(rule="Average()", attack="SignFlip()", byzantine=2)
    >>> (table,) = grids([Entry(key(run), run, "done", [{"round": 10, "accuracy": 0.5}])])
    >>> table.rows, table.columns
    (['Average'], ['SignFlip'])
    """
    entries = list(entries)
    said = caption(entries)
    return [
        Grid(
            one.title,
            one.rows,
            one.columns,
            {at: Cell(tuple(e.accuracy for e in runs if e.accuracy is not None)) for at, runs in one.cells.items()},
            said,
        )
        for one in groups(entries)
    ]
