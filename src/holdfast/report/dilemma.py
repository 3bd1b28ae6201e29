"""The dilemma of Yi et al. 2024, Section "Two-phase": sneak and siege look the same.

n = 11, f = 5, seven honest workers and four liars. The eleven points are the same in both panels; only
who lies differs. No rule can tell, and whatever rule is near the honest mean in one panel is off in the other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from holdfast.figures import new_figure, save_figure
from holdfast.guarantees.instances import DILEMMA as POINTS
from holdfast.guarantees.instances import SIEGE, SNEAK
from holdfast.rules import Average, MeanwO, OuterMean

F = 5
ANSWERS = (
    ("Average", Average(), "#7f7f7f", "P"),
    ("Inner: MeanwO", MeanwO(F), "#0072b2", "D"),
    ("Outer: OuterMean", OuterMean(F), "#d55e00", "^"),
)


def draw(out: Path) -> None:
    """Both panels into one file."""
    figure = new_figure(8.4, 3.9)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    _panel(left, SNEAK, "Sneak: liars among the honest", "Outer is near the honest mean, Inner is fooled")
    _panel(right, SIEGE, "Siege: liars around the honest", "Inner is near the honest mean, Outer is fooled")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    save_figure(figure, out)


def numbers() -> str:
    """How far each answer is from the honest mean, in either story; the points, and so the answers, are the same."""
    lines = [f"11 points, 7 honest and 4 lying, rules that withstand f = {F}: the same points, two stories.", ""]
    lines.append("Distance of each answer from the honest mean:")
    lines.append(f"{'':18}{'sneak':>8}{'siege':>8}")
    means = [np.delete(POINTS, liars, axis=0).mean(axis=0) for liars in (SNEAK, SIEGE)]
    for label, rule, _, _ in ANSWERS:
        away = [float(np.linalg.norm(rule(POINTS) - mean)) for mean in means]
        lines.append(f"{label:18}{away[0]:8.2f}{away[1]:8.2f}")
    sides = [mean - Average()(POINTS) for mean in means]
    cosine = float(sides[0] @ sides[1] / np.linalg.norm(sides[0]) / np.linalg.norm(sides[1]))
    return "\n".join([*lines, "", f"The honest means lie on opposite sides of the average: cosine {cosine:.2f}."])


def _panel(axes: Axes, liars: np.ndarray, title: str, below: str) -> None:
    honest = np.setdiff1d(np.arange(len(POINTS)), liars)
    mean = POINTS[honest].mean(axis=0)
    axes.scatter(
        POINTS[honest, 0], POINTS[honest, 1], s=46, color="#56b4e9", edgecolor="#0b3c5d", label="honest", zorder=2
    )
    axes.scatter(POINTS[liars, 0], POINTS[liars, 1], s=42, color="black", marker="s", label="liar", zorder=2)
    axes.scatter(mean[0], mean[1], s=170, color="#009e73", marker="*", label="honest mean", zorder=4, edgecolor="white")
    for label, rule, colour, marker in ANSWERS:
        at = rule(POINTS)
        axes.scatter(at[0], at[1], s=62, color=colour, marker=marker, label=label, zorder=3, edgecolor="white")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel(below, fontsize=9)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
