"""A picture of every rule and of every attack, on one small round of fifteen workers, three of them liars.

Circles are honest, squares lie, the star is the honest mean. The fuller a point, the larger its part in the answer;
hollow ones have none.
"""

from __future__ import annotations

import io
from inspect import signature
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from holdfast.attacks import Attack, Spread, View, Zero
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.figures import new_figure, save_figure
from holdfast.mix import mix_points
from holdfast.points import Points
from holdfast.reading import read
from holdfast.rules import CWTM
from holdfast.rules.base import Mixing
from holdfast.twophase import TwoPhase

F = 3
HONEST = np.array(
    [
        *([0.40, 0.95], [0.75, 0.45], [0.95, 0.80], [1.05, 1.20], [1.25, 0.60], [1.35, 0.95]),
        *([0.90, 0.15], [1.60, 1.15], [1.75, 0.70], [1.15, 1.65], [1.50, 0.25], [2.05, 1.35]),
    ]
)
LIARS = np.array([[-0.80, -0.45], [-0.55, -0.80], [0.25, 0.40]])  # two far off, one at the edge
OWN = np.array([[0.60, 0.70], [1.30, 1.35], [1.70, 0.95]])  # what the liars would send if they were honest
POINTS = np.vstack([HONEST, LIARS])
START = np.array([0.60, 1.30])  # the last aggregate, for rules that start there
SKY, NAVY, GREEN, RED, BLUE, PURPLE, GREY = "#56b4e9", "#0b3c5d", "#009e73", "#d55e00", "#0072b2", "#cc79a7", "#6b6b6b"


def example(rule: Any, f: int = F) -> Any:
    """A value of a rule, for a picture or a table."""
    given: dict[str, Any] = {"f": f, "tau": 1.2, "s": 2, "pivot": 4, "rule": CWTM(f)}
    return rule(**{name: given[name] for name in signature(rule).parameters if name in given})


def distance(value: Any) -> float:
    """How far the answer to the round is from the honest mean, in honest standard deviations."""
    mean = HONEST.mean(axis=0)
    spread = np.sqrt(np.square(HONEST - mean).sum(axis=1).mean())
    answer = _decided(value).value
    return float(np.linalg.norm(answer - mean) / spread)


def _decided(value: Any) -> Decision:
    return decide(value, read(POINTS, repr(value)), rng=np.random.default_rng(0), start=START)


def rule(value: Any) -> bytes:
    """What a rule, a mixing stage or a two-phase rule makes of the round, as SVG."""
    figure, axes = _card()
    if isinstance(value, TwoPhase):
        candidates = value.propose(POINTS)
        for one, colour, marker, name in (
            (candidates.inner, BLUE, "D", "Inner"),
            (candidates.outer, RED, "^", "Outer"),
        ):
            _ball(axes, one.ball, colour)
            _answer(axes, one.value, colour, marker, f"{name}: {one.rule!r}")
        _workers(axes, HONEST, LIARS, np.ones(len(POINTS)))
    elif isinstance(value, Mixing):
        _mixed(axes, value)
    else:
        seen = _decided(value)
        _ball(axes, seen.ball, BLUE)
        part = np.where(seen.weights > 0, 0.2 + 0.8 * (seen.weights / seen.weights.max()), 0.0)  # a small one shows too
        _workers(axes, HONEST, LIARS, part)
        _answer(axes, np.asarray(seen.value), BLUE, "D", repr(value))
    for name, place in (("origin", np.zeros(2)), ("start", START)):
        if name in getattr(value, "anchors", ()):
            axes.scatter(place[0], place[1], s=60, marker="+", color=GREY, label=name, zorder=1)
    return _svg(figure, axes)


def sent(kind: type[Attack], rule: Any) -> Any:
    """What the liars of the round send under an attack that meets a rule."""
    value = Spread(Zero()) if kind is Spread else kind()
    with np.errstate(all="ignore"):
        return value(View(honest=HONEST, own=OWN, rule=rule, f=F))


def attack(kind: type[Attack]) -> bytes:
    """Where an attack sends the liars' rows, from where they would be if the liars were honest, as SVG."""
    rows = sent(kind, CWTM(F))
    figure, axes = _card()
    _workers(axes, HONEST, np.zeros((0, 2)), np.ones(len(HONEST)))
    axes.scatter(OWN[:, 0], OWN[:, 1], s=34, marker="s", facecolor="none", edgecolor=GREY, label="liar, if honest")
    if isinstance(rows, np.ndarray) and np.isfinite(rows).all():
        for start, end in zip(OWN, rows, strict=True):
            axes.plot(*np.transpose([start, end]), color=GREY, linewidth=0.7, linestyle=":", zorder=1)
        axes.scatter(rows[:, 0], rows[:, 1], s=40, marker="s", color="black", label="sent", zorder=3)
    else:
        axes.scatter([], [], marker="s", color="black", label=f"sent: {kind.formula}")
    return _svg(figure, axes)


def _mixed(axes: Axes, stage: Mixing) -> None:
    """Where a stage puts the points, and what a trimmed mean then answers."""
    chain = stage >> CWTM(F)
    moved = _points(stage)
    _workers(axes, HONEST, LIARS, np.zeros(len(POINTS)))
    axes.scatter(moved[:, 0], moved[:, 1], s=20, color=PURPLE, label=f"after {stage!r}", zorder=3, linewidth=0)
    if len(moved) == len(POINTS):
        for start, end in zip(POINTS, moved, strict=True):
            axes.plot(*np.transpose([start, end]), color=PURPLE, linewidth=0.5, alpha=0.6, zorder=1)
    _answer(axes, _decided(chain).value, BLUE, "D", repr(chain))


def _points(stage: Mixing) -> np.ndarray:
    """The points that come out of a stage."""
    points, rng = Points.rows(read(POINTS, repr(stage)), np.arange(len(POINTS))), np.random.default_rng(0)
    for one in stage.stages():
        if isinstance(one, Mixing):
            points, _, _ = mix_points(one, points, rng)
    return np.asarray(points.matrix() @ POINTS)


def _workers(axes: Axes, honest: np.ndarray, liars: np.ndarray, part: np.ndarray) -> None:
    full = [to_rgba(SKY, float(p)) for p in part[: len(honest)]]
    axes.scatter(honest[:, 0], honest[:, 1], s=44, color=full, edgecolor=NAVY, label="honest", zorder=2)
    if len(liars):
        black = [to_rgba("black", float(p)) for p in part[len(honest) :]]
        axes.scatter(liars[:, 0], liars[:, 1], s=40, color=black, marker="s", edgecolor="black", label="liar", zorder=2)
    mean = honest.mean(axis=0)
    axes.scatter(mean[0], mean[1], s=120, color=GREEN, marker="*", edgecolor="white", label="honest mean", zorder=4)


def _ball(axes: Axes, ball: tuple[int, float] | None, colour: str) -> None:
    if ball:
        axes.add_patch(Circle(tuple(POINTS[ball[0]]), ball[1], fill=False, color=colour, linewidth=0.9, linestyle="--"))


def _answer(axes: Axes, at: np.ndarray, colour: str, marker: str, label: str) -> None:
    axes.scatter(
        at[0], at[1], s=95, facecolor="none", edgecolor=colour, linewidth=2, marker=marker, label=label, zorder=5
    )


def _card() -> tuple[Figure, Axes]:
    figure = new_figure(4.2, 3.4, facecolor="white")
    axes = figure.subplots()
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    return figure, axes


def _svg(figure: Figure, axes: Axes) -> bytes:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    out = io.BytesIO()
    save_figure(figure, out)
    return out.getvalue()
