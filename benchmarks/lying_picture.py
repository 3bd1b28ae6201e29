"""The picture of docs/weights.md: what a lying count does to Flower's own strategies and to ours.

example:  python benchmarks/lying_picture.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from holdfast.figures import new_figure, save_figure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "flower" / "lying_counts.json"
TRUE, LYING = "#0072b2", "#d55e00"
LEAST, MOST = 0.05, 300.0  # of the axis; what is nearer stands at its left end
PANELS = {"hidden": "The liars hide among the others", "far": "The liars are far away"}


def draw(told: dict[str, Any], out: Path) -> None:
    """A line for each strategy, from its distance with true counts to its distance with lying ones."""
    figure = new_figure(9.4, 4.4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, PANELS.items(), strict=True):
        _panel(axes, told["rows"], kind)
        axes.set_title(title, fontsize=10)
    names = [f"{row['strategy'].removesuffix(', weighted')}\ncounts {row['counts']}" for row in told["rows"]]
    panels[0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    figure.supxlabel("distance to the honest mean by true counts, in honest deviations (less is better)", fontsize=9)
    save_figure(figure, out)


def _panel(axes: Axes, rows: list[dict[str, Any]], kind: str) -> None:
    for place, row in enumerate(rows):
        true, lying = (row[key]["mean"] for key in (kind, f"{kind}, 10⁹"))
        left, right = max(true, LEAST), max(lying, LEAST)
        axes.plot([left, right], [place, place], color="#bbb", linewidth=3, zorder=1)
        first = place == 0
        axes.scatter(left, place, s=70, color=TRUE, zorder=2, label="the liars declare true counts" if first else None)
        axes.scatter(right, place, s=24, color=LYING, zorder=3, label="they declare 10⁹ each" if first else None)
        axes.text(max(left, right) * 1.25, place, number(lying), va="center", fontsize=8, color=LYING)
    axes.set_xscale("log")
    axes.set_xlim(LEAST / 1.2, MOST)
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.axhline(3.5, color="#999", linewidth=0.8, linestyle=":")  # Flower's own above, ours below
    axes.grid(axis="x", color="#eee")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def number(distance: float) -> str:
    """A distance as people write it; rounding alone is 0."""
    return "0" if distance < 1e-9 else f"{distance:.0f}" if distance >= 10 else f"{distance:.2g}"


if __name__ == "__main__":
    draw(json.loads(RESULTS.read_text()), ROOT / "docs" / "lying-counts.svg")
