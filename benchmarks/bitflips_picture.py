"""The picture of docs/distributed.md: which flipped bits the ledger finds, and how soon.

example:  python benchmarks/bitflips_picture.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from holdfast.figures import new_figure, save_figure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "benchmarks" / "bitflips.json"
BITS = range(31, 15, -1)  # below them no flip was ever named
STYLES = {"gradient": ("#d55e00", "in one number of the gradient"), "weight": ("#0072b2", "in one weight")}
FACTORS = {5: "#56b4e9", 100: "#d55e00"}  # times the middle distance


def draw(told: dict[str, Any], out: Path) -> None:
    """The share of flips that are named, bit by bit; the steps until a rank is named, rate by rate."""
    figure = new_figure(9.4, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    _by_bit(left, told["bits"])
    _by_rate(right, [row for row in told["detection"] if row["bits"] == "exponent"])
    for axes in (left, right):
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#eee")
        axes.set_axisbelow(True)
        axes.legend(fontsize=8, frameon=False)
    save_figure(figure, out)


def _by_bit(axes: Axes, places: dict[str, Any]) -> None:
    wide = 0.4
    for at, (place, (colour, label)) in enumerate(STYLES.items()):
        where = [31 - bit + (at - 0.5) * wide for bit in BITS]
        axes.bar(where, [places[place]["named at 5"][bit] for bit in BITS], wide, color=colour, alpha=0.35)
        axes.bar(where, [places[place]["named at 100"][bit] for bit in BITS], wide, color=colour, label=label)
    axes.axvspan(0.5, 8.5, color="#f4f4f4", zorder=0)
    for where_from, part in ((0, "sign"), (4.5, "exponent"), (12, "mantissa")):
        axes.text(where_from, 1.02, part, ha="center", fontsize=8)
    axes.set_xticks(range(len(BITS)), [str(bit) for bit in BITS])
    axes.set_ylim(0, 1.1)
    axes.set_xlabel("bit of a float32; pale: from 5 times, full: from 100 times the middle distance", fontsize=9)
    axes.set_ylabel("share of flips that are named", fontsize=9)


def _by_rate(axes: Axes, rows: list[dict[str, Any]]) -> None:
    for least, colour in FACTORS.items():
        points = [(row["one flip in"], row[f"steps until named at {least}"]) for row in rows]
        known = [(rate, steps) for rate, steps in points if steps is not None]
        axes.plot(*zip(*known, strict=True), "o-", color=colour, label=f"from {least} times the middle distance")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([10, 100, 1000], ["10", "100", "1,000"])
    axes.minorticks_off()
    axes.set_xlabel("one flip of an exponent bit in so many steps", fontsize=9)
    axes.set_ylabel("steps until the rank is named", fontsize=9)


if __name__ == "__main__":
    draw(json.loads(RESULTS.read_text()), ROOT / "docs" / "bitflips.svg")
