"""A grid as a table: on a terminal, in Markdown, LaTeX and HTML; marks and signs, never colour alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING

from holdfast.errors import BadInput, MissingExtra, plural
from holdfast.report.grid import WORST, Cell, Grid

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["html", "latex", "markdown", "terminal"]

NOTHING = "–"
SEEN = 0.05  # a difference that Markdown marks
FULL = 0.2  # a difference of which the colour is strongest
ABOVE, BELOW = "0, 114, 178", "213, 94, 0"  # blue and orange, which nobody confuses
TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", NOTHING: "--", "±": r"$\pm$"}
TEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"} | {"<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$"}
BACKSLASHED = re.compile(r"([\\`*_\[\]|~$])")


def parts(cell: Cell) -> tuple[str, str, str]:
    """The mean, the deviation and the reference as texts: 0.76, ± 0.02 and (0.79, −0.03).

    >>> parts(Cell((0.75, 0.77), reference=0.79))
    ('0.76', '± 0.01', '(0.79, −0.03)')
    """
    mean = NOTHING if cell.mean is None else f"{cell.mean:.2f}"
    std = "" if cell.std is None else f"± {cell.std:.2f}"
    if cell.reference is None:
        return mean, std, ""
    off = cell.difference
    more = "" if off is None else ", 0.00" if off == 0 else f", {off:+.2f}".replace("-", "−")
    return mean, std, f"({cell.reference:.2f}{more})"


def columns(grid: Grid, worst: str = "first") -> list[str]:
    """The columns in the order in which they are shown."""
    if worst not in ("first", "last"):
        raise BadInput(f"a table was given worst = {worst!r}; it stands first or last.")
    if not grid.attacked:
        return grid.columns
    return [WORST, *grid.columns] if worst == "first" else [*grid.columns, WORST]


def note(grid: Grid, marked: str = "bold", *, squares: bool = False) -> str:
    """How to read the numbers."""
    many = sorted({cell.n for cell in grid.cells.values() if cell.n})
    span = f"{many[0]} to {many[-1]}" if len(many) > 1 else f"{many[0]}" if many else "no"
    over = f"{span} {plural(many[-1] if many else 0, 'run')}"
    what = f"mean ± standard deviation (divided by n) of {over}" if many and many[-1] > 1 else f"{over}"
    said = [f"Accuracy, {what} a cell"]
    said += ["Worst: the lowest mean over the attacks"] if grid.attacked else []
    said += [f"{marked}: the best of its column"]
    if any(cell.reference is not None for cell in grid.cells.values()):
        said += ["in brackets: the reference and our difference to it"]
        said += [f"🟦 ours is at least {SEEN} higher, 🟧 lower"] if squares else []
    return "; ".join(said) + "."


def _lines(grid: Grid, worst: str, text: Callable[[Cell, bool], str]) -> list[list[str]]:
    heads = columns(grid, worst)
    best = {column: grid.best(column) for column in heads}
    return [[text(grid[row, column], row in best[column]) for column in heads] for row in grid.rows]


def terminal(grid: Grid, worst: str = "first") -> Group:
    """Return a table for rich's console; the best is bold and has a star, which a pipe keeps.

    Parameters
    ----------
    grid : Grid
        The accuracies.
    worst : "first" or "last"
        Where the column Worst stands.

    Returns
    -------
    rich.console.Group
        Title, table, and how to read it.

    Raises
    ------
    MissingExtra
        If rich is missing.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> from holdfast.report.tables import terminal
    >>> type(terminal(grid("", {("CWTM", "SF"): [0.5, 0.7]}))).__name__
    'Group'
    """
    try:
        from rich.console import Group
        from rich.table import Column, Table
        from rich.text import Text
    except ImportError:
        raise MissingExtra("a table on a terminal", "rich", "cli") from None
    heads = [Column(Text(grid.corner)), *(Column(Text(name), justify="right") for name in columns(grid, worst))]
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row, cells in zip(grid.rows, _lines(grid, worst, _plain), strict=True):
        table.add_row(Text(row), *(Text(cell, style="bold" if "*" in cell else "") for cell in cells))
    return Group(Text(grid.title or "Accuracy", style="bold"), table, Text(_caption(grid, "star"), style="dim"))


def _plain(cell: Cell, best: bool) -> str:
    mean, *more = parts(cell)
    return " ".join(filter(None, (mean + ("*" if best else " "), *more)))


def markdown(grid: Grid, worst: str = "first") -> str:
    """Return a title, a table of pipes and how to read it.

    Parameters
    ----------
    grid : Grid
        The accuracies.
    worst : "first" or "last"
        Where the column Worst stands.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> from holdfast.report.tables import markdown
    >>> print(markdown(grid("", {("CWTM", "SF"): [0.5], ("CWTM", "LF"): [0.9]})).splitlines()[2])
    | CWTM | **0.50** | **0.50** | **0.90** |
    """

    def text(cell: Cell, best: bool) -> str:
        mean, *more = parts(cell)
        return " ".join(filter(None, (f"**{mean}**" if best else mean, *more, _square(cell.difference))))

    heads = [grid.corner, *columns(grid, worst)]
    lines = [[row, *cells] for row, cells in zip(map(_md, grid.rows), _lines(grid, worst, text), strict=True)]
    rows = [list(map(_md, heads)), ["---", *["--:"] * (len(heads) - 1)], *lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "\n\n".join(filter(None, (grid.title and f"**{_md(grid.title)}**", table, _md(_caption(grid, squares=True)))))
        + "\n"
    )


def _square(off: float | None) -> str:
    """Blue where we are well above the reference, orange where well below; Markdown has no other colour."""
    return "" if off is None or abs(off) < SEEN else "🟦" if off > 0 else "🟧"


def _md(text: str) -> str:
    return BACKSLASHED.sub(r"\\\1", escape(" ".join(text.split()), quote=False).replace("&gt;", ">"))


def latex(grid: Grid, worst: str = "first") -> str:
    """Return a table for LaTeX, which needs the package booktabs.

    Parameters
    ----------
    grid : Grid
        The accuracies.
    worst : "first" or "last"
        Where the column Worst stands.

    Returns
    -------
    str
        LaTeX.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> from holdfast.report.tables import latex
    >>> "toprule" in latex(grid("", {("CWTM", "SF"): [0.5]}))
    True
    """

    def text(cell: Cell, best: bool) -> str:
        mean, *more = map(_tex, parts(cell))
        return " ".join(filter(None, (rf"\textbf{{{mean}}}" if best else mean, *more)))

    heads = [grid.corner, *columns(grid, worst)]
    lines = [[row, *cells] for row, cells in zip(map(_tex, grid.rows), _lines(grid, worst, text), strict=True)]
    head, *body = (rf"{' & '.join(row)} \\" for row in [list(map(_tex, heads)), *lines])
    title = grid.title + ". " * bool(grid.title)
    top = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(title + _caption(grid))}}}"]
    top += [rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*top, *body, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _tex(text: str) -> str:
    return "".join(TEX.get(letter, letter) for letter in " ".join(text.split()))


def html(grid: Grid, worst: str = "first") -> str:
    """Return a table element; differences to a reference are blue above and orange below, with their sign.

    Parameters
    ----------
    grid : Grid
        The accuracies.
    worst : "first" or "last"
        Where the column Worst stands.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from holdfast.report.grid import grid
    >>> from holdfast.report.tables import html
    >>> html(grid("", {("CWTM", "SF"): [0.5]})).startswith("<table>")
    True
    """

    def text(cell: Cell, best: bool) -> str:
        mean, std, theirs = map(escape, parts(cell))
        aside = f" <small>{std}</small>" * bool(std) + f' <small class="theirs">{theirs}</small>' * bool(theirs)
        return f"<td{_tint(cell.difference)}>{f'<b>{mean}</b>' if best else mean}{aside}</td>"

    names = [grid.corner, *columns(grid, worst)]
    apart = "".join('<col class="worst">' if name == WORST else "<col>" for name in names)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = zip(grid.rows, _lines(grid, worst, text), strict=True)
    rows = "\n".join(f'<tr><th scope="row">{escape(row)}</th>{"".join(cells)}</tr>' for row, cells in lines)
    top = f"<caption>{escape(_caption(grid))}</caption><colgroup>{apart}</colgroup>"
    return f"<table>{top}\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>\n"


def _tint(off: float | None) -> str:
    if not off:
        return ""
    return f' style="background: rgba({ABOVE if off > 0 else BELOW}, {0.5 * min(abs(off) / FULL, 1):.2f})"'


def _caption(grid: Grid, marked: str = "bold", *, squares: bool = False) -> str:
    return " ".join(filter(None, (grid.caption, note(grid, marked, squares=squares) if grid.worst else "")))
