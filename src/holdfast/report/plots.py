"""Accuracy over the rounds, one panel per attack; and a heat map of a grid. Legible in grey and to the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from io import StringIO
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadInput
from holdfast.experiments.store import Entry
from holdfast.figures import new_figure, save_figure
from holdfast.report.grid import WORST, Grid
from holdfast.report.groups import Group, groups
from holdfast.report.tables import columns, parts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves", "heat"]

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"]  # Okabe and Ito's
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = "osD^vPX*<>hp"
UNKNOWN = "#e8e8e8"
PANEL = (2.9, 2.3)  # inches
LETTER = 0.085  # inches, of a name in the legend


def curves(runs: Group | Iterable[Entry], out: Any) -> None:
    """Draw the accuracies over the rounds into a file: means over seeds, with a band of one standard deviation.

    Parameters
    ----------
    runs : Group or iterable of Entry
        The runs; those that are done are drawn. Entries may differ in rule, attack and seed; a group is drawn by its
        own names.
    out : path
        The file; its ending says the format.

    Raises
    ------
    BadInput
        If no run is done, or the runs differ in more.
    MissingExtra
        If matplotlib is missing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from holdfast import Run
    >>> from holdfast.experiments.store import Entry, key
    >>> from holdfast.report.plots import curves
    >>> run = Run(rule="Average()", attack="SignFlip()", byzantine=2)
    >>> found = [{"round": 10, "accuracy": 0.5}, {"round": 20, "accuracy": 0.6}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     curves([Entry(key(run), run, "done", found)], Path(folder) / "curves.svg")
    ...     (Path(folder) / "curves.svg").exists()
    True
    """
    group = runs if isinstance(runs, Group) else _only_group(groups(runs))
    if not group.cells:
        raise BadInput("curves were given no finished run; wait for one, or name another store.")
    many = len(group.columns)
    wide = many if many < 5 else min((4, 3), key=lambda across: -many % across)
    high = -(-many // wide)
    broad = max(PANEL[0] * wide, 4.5)
    across = max(1, min(wide, int(broad / (0.6 + LETTER * max(map(len, group.rows))))))  # names side by side
    figure = new_figure(broad, PANEL[1] * high + 0.45 + 0.22 * -(-len(group.rows) // across))
    panels = list(figure.subplots(high, wide, sharex=True, sharey=True, squeeze=False).flat)
    lines: dict[str, Any] = {}
    for axes, attack in zip(panels, group.columns, strict=False):
        for at, rule in enumerate(group.rows):
            if alike := group.cells.get((rule, attack)):
                lines[rule] = _line(axes, [dict(one.curve()) for one in alike], at)
        axes.set_title(_text(attack), fontsize=10)
        axes.set_ylim(0, 1)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[many:]:
        axes.set_axis_off()
    for axes in panels[::wide]:
        axes.set_ylabel("accuracy")
    for axes in panels[:many][-wide:]:  # the lowest of each column of panels
        axes.set_xlabel("rounds")
        axes.tick_params(labelbottom=True)
    shown = [rule for rule in group.rows if rule in lines]
    names = [_text(rule) for rule in shown]
    figure.legend([lines[rule] for rule in shown], names, loc="outside lower center", ncols=across, frameon=False)
    save_figure(figure, out)


def _only_group(groups_found: Sequence[Group]) -> Group:
    if len(groups_found) > 1:
        titles = f"{groups_found[0].title} and {groups_found[1].title}"
        raise BadInput(f"curves were given runs of {titles}; choose such that differ in rule, attack and seed alone.")
    return groups_found[0] if groups_found else Group("", [], [], {})


def _line(axes: Axes, curves_of_seeds: Sequence[dict[int, float]], at: int) -> Any:
    """One rule's curve over the rounds that all of its seeds have."""
    rounds = sorted(set.intersection(*map(set, curves_of_seeds)))
    values = [[one[t] for one in curves_of_seeds] for t in rounds]
    mean = [fmean(accuracies) for accuracies in values]
    colour = COLOURS[at % len(COLOURS)]
    if len(curves_of_seeds) > 1:
        std = [pstdev(accuracies) for accuracies in values]
        low, high = ([max(0, min(1, m + sign * s)) for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
        axes.fill_between(rounds, low, high, color=colour, alpha=0.18, linewidth=0)
    marked = (at % 3 if len(rounds) > 6 else 0, max(1, len(rounds) // 6))  # which points have a mark
    style: Any = {"linestyle": DASHES[(at + at // len(COLOURS)) % len(DASHES)], "marker": MARKERS[at % len(MARKERS)]}
    return axes.plot(rounds, mean, color=colour, linewidth=1.5, ms=4.0, markevery=marked, **style)[0]


def heat(grid: Grid, out: Any) -> None:
    """Draw a grid into a file: shades from 0 to 1 with the numbers in them; Worst stands apart.

    Parameters
    ----------
    grid : Grid
        The accuracies.
    out : path
        The file; its ending says the format.

    Raises
    ------
    BadInput
        If the grid is empty.
    MissingExtra
        If matplotlib is missing.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from holdfast.report.grid import grid
    >>> from holdfast.report.plots import heat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     heat(grid("", {("CWTM", "SF"): [0.5, 0.7]}), Path(folder) / "heat.svg")
    ...     (Path(folder) / "heat.svg").exists()
    True
    """
    heads, gap = columns(grid), 0.25
    if not heads:
        raise BadInput("a heat map was given an empty grid; it shows at least one number.")
    longest, slant = max(map(len, grid.rows)), 30 if max(map(len, heads)) > 9 else 0
    figure = new_figure(1.0 + 0.085 * longest + 0.85 * len(heads), (0.5, 1.1)[slant > 0] + 0.36 * len(grid.rows))
    from matplotlib import colormaps

    axes = figure.subplots()
    places = [at + (gap if WORST in heads and head != WORST else 0) for at, head in enumerate(heads)]
    for y, row in enumerate(grid.rows):
        for x, head in zip(places, heads, strict=True):
            mean = grid[row, head].mean
            shade = UNKNOWN if mean is None else colormaps["cividis"](mean / grid.full)
            axes.bar(x, 0.96, width=0.97, bottom=y - 0.48, color=shade)
            ink = "black" if mean is None or mean > grid.full / 2 else "white"
            weight = "bold" if row in grid.best(head) else "normal"
            axes.text(x, y, parts(grid[row, head])[0], ha="center", va="center", fontsize=9, color=ink, weight=weight)
    axes.set_xlim(-0.5, places[-1] + 0.5)
    axes.set_ylim(len(grid.rows) - 0.5, -0.5)
    axes.set_yticks(range(len(grid.rows)), [_text(row) for row in grid.rows], fontsize=9)
    turned: Any = {"rotation": slant, "ha": "left" if slant else "center", "rotation_mode": "anchor"}
    axes.set_xticks(places, [_text(head) for head in heads], fontsize=9, **turned)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    save_figure(figure, out)


def _text(name: str) -> str:
    """Dollars are dollars, not mathematics."""
    return name.replace("$", r"\$")


def inline(draw: Any, what: Any, title: str) -> str:
    """A figure as an element of a page, named by its title: no prolog, no addresses, no ids that nothing refers to."""
    out = StringIO()
    draw(what, out)
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    used = set(re.findall(r"(?:#|url\(#)([\w-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
