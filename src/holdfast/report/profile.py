"""The picture of a profile: how far the answer moves, κ, and how many workers are excluded, over f."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from holdfast.figures import new_figure, save_figure
from holdfast.guarantees.profile import JUMP, Profile
from holdfast.report.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGE = 50.0  # a ratio of heights from which on an axis is logarithmic
HIGH = 8.0  # times the largest move: limits above are not drawn
TICKS = 20  # on the axis of f


def draw(found: Profile, out: Path | str | IO[Any]) -> None:
    """Draw a profile into a file, svg, png or pdf.

    Parameters
    ----------
    found : Profile
        What `holdfast.profile` returned.
    out : path
        The file; its ending says the format.
    """
    figure = new_figure(8.4, 6.0)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.4, 1.0, 0.8))
    _draw_moves(top, found)
    _draw_kappas(middle, found)
    f = np.arange(len(found.decisions))
    bottom.bar(f, [len(decision.excluded) for decision in found.decisions], color="#bbbbbb", width=0.6)
    bottom.set_ylabel("workers excluded", fontsize=9)
    bottom.set_xticks(f[:: -(-len(f) // TICKS)])
    bottom.set_xlabel(f"f of {re.sub('f=[0-9]+', 'f', repr(found.rule))}, n = {found.n}", fontsize=9)
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.set_axisbelow(True)
        if found.jump is not None:
            axes.axvline(found.jump, color=COLOURS[1], linewidth=1.0, linestyle=":", zorder=0)
    figure.align_ylabels()
    save_figure(figure, out)


def _draw_moves(axes: Axes, found: Profile) -> None:
    """A bar for each f: the distance to the answer before; a line above it where it would be a jump."""
    moves = np.where(np.isfinite(found.moves), found.moves, 0.0)
    f = np.arange(len(moves))
    with np.errstate(all="ignore"):
        limits = JUMP * found.spreads * np.where(found.shifts > 0, found.moves / found.shifts, np.nan)
    jumps = np.isin(f, found.jumps)
    for mask, colour, label in ((~jumps, COLOURS[0], "move"), (jumps, COLOURS[1], "jump")):
        axes.bar(f[mask], moves[mask], color=colour, width=0.6, label=label if mask[1:].any() else None)
    shown = np.isfinite(limits) & (limits <= HIGH * moves.max(initial=0.0))
    axes.hlines(limits[shown], f[shown] - 0.4, f[shown] + 0.4, color="black", linewidth=1.2, label="limit of a jump")
    heights = moves[moves > 0]
    if len(heights) and heights.max() > LARGE * heights.min():
        axes.set_yscale("log")
        axes.set_ylim(bottom=heights.min() / 3)
    axes.set_ylabel("distance to the\nanswer before", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="upper right")


def _draw_kappas(axes: Axes, found: Profile) -> None:
    """κ of this round's answers, and what the rule promises for every round."""
    f = np.arange(len(found.decisions))
    lines = (("κ(X) of this round", found.kappas, "o-"), ("κ promised", found.promises, "--"))
    for colour, (label, values, style) in zip(("#009e73", "#7f7f7f"), lines, strict=True):
        known = np.isfinite(values) & (values > 1e-9)
        if known.any():
            axes.plot(f[known], values[known], style, color=colour, markersize=4, linewidth=1.4, label=label)
            axes.set_yscale("log")
    axes.set_ylabel("κ", fontsize=9)
    if axes.has_data():
        axes.legend(fontsize=8, frameon=False, loc="upper left")
