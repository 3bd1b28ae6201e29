"""How far rules are from the optimum on given vectors, from each other, and how their answers move as f grows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.figures import new_figure, save_figure
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.reading import distance, numbers_of, read
from holdfast.rules import MeanExact, MeanwO
from holdfast.rules.clustering import sums_of_squares

__all__ = ["compare"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rules on the same vectors.

    Parameters
    ----------
    rules : list of Stage
        The rules.
    decisions : list of Decision
        What each decided.
    costs : numpy.ndarray
        The sums of squares of the sets that the rules kept, over the optimum for sets of n - f; nan for rules that
        keep no such set.
    proven : bool
        Whether the optimum is proved.
    apart : numpy.ndarray
        The distances between the answers.
    moves : numpy.ndarray
        The distance of MeanwO's answer at each f to that at f = 0, in units of the usual distance of a vector to the
        mean (√½ of the median distance between two).

    Examples
    --------
    >>> from holdfast import CWM, MeanwO
    >>> from holdfast.report.compare import compare
    >>> compare([[0.0], [1.0], [2.0], [90.0]], [MeanwO(f=1), CWM()], f=1).apart.tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """

    rules: list[Any]
    decisions: list[Decision]
    costs: np.ndarray
    proven: bool
    apart: np.ndarray
    moves: np.ndarray


def compare(X: Any, rules: list[Any], f: int, like: Any = None, rng: np.random.Generator | None = None) -> Comparison:
    """Run rules on the same vectors, the optimum for f, and MeanwO for every f that n allows.

    Parameters
    ----------
    X : array of shape (n, ...), or sequence of n updates
        One row or one entry for each worker.
    rules : list of Stage
        The rules.
    f : int
        How many workers may be Byzantine.
    like : update, optional
        An update of the right structure.
    rng : numpy.random.Generator, optional
        For rules that draw.

    Returns
    -------
    Comparison
        Costs, distances and moves.

    Raises
    ------
    BadInput
        If there is no rule, or a rule refuses the round.

    Examples
    --------
    >>> from holdfast import Krum, MeanwO
    >>> from holdfast.report.compare import compare
    >>> compare([[0.0], [1.0], [2.0], [3.0], [90.0]], [MeanwO(f=1), Krum(f=1)], f=1).costs.tolist()
    [1.0, nan]
    """
    if not rules:
        raise BadInput("nothing was given to compare; name at least one rule.")
    updates = read(X, "compare", like=like)
    decisions = [decide(rule, updates, rng=rng) for rule in rules]
    best = decide(MeanExact(f), updates)
    D, scale, _ = distances(Points.rows(updates, best.rows))
    optimum = float(sums_of_squares(D, np.isin(best.rows, best.kept)[None])[0])
    ratios = [_ratio(D, decision, best, optimum) for decision in decisions]
    values = [numbers_of(decision.value, "compare") for decision in decisions]
    apart = np.array([[distance(a, b) for b in values] for a in values])
    n = len(best.rows)
    remaining = replace(updates, on_excess="lower")  # how answers move is about the vectors that were not dropped
    answers = [numbers_of(decide(MeanwO(k), remaining).value, "compare") for k in range((n + 1) // 2)]
    unit = float(np.sqrt(np.median(D[D > 0]) / 2)) / scale if (D > 0).any() else 1.0
    moves = np.array([distance(answer, answers[0]) for answer in answers]) / unit
    proven = best.bound is not None and best.cost is not None and best.bound >= best.cost * (1 - 1e-9)
    return Comparison(rules, decisions, np.array(ratios), proven, apart, moves)


def _ratio(D: np.ndarray, decision: Decision, best: Decision, optimum: float) -> float:
    """Sum of squares of the kept over the optimum; nan unless a rule keeps as many as the optimum does, evenly."""
    w = decision.weights[decision.rows]
    if len(decision.kept) != len(best.kept) or len(decision.rows) != len(best.rows) or np.ptp(w[w > 0]) > 1e-12:
        return float("nan")
    cost = float(sums_of_squares(D, (w > 0)[None])[0])
    return cost / optimum if optimum > 0 else 1.0 if cost == 0 else float("inf")


def draw(comparison: Comparison, out: Any) -> None:
    """Left: the distances between the answers; right: how MeanwO's answer moves as f grows."""
    figure = new_figure(11.0, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    apart = comparison.apart
    shade = np.log10(np.maximum(apart, apart[apart > 0].min(initial=1.0) / 10))
    left.imshow(shade, cmap="cividis_r")
    middle = (shade.max() + shade.min()) / 2
    for i, row in enumerate(apart):
        for j, d in enumerate(row):
            colour = "white" if shade[i, j] > middle else "black"
            left.text(j, i, f"{d:.2g}", ha="center", va="center", fontsize=8, color=colour)
    left.set_yticks(range(len(apart)), [f"{rule!r}  {i + 1}" for i, rule in enumerate(comparison.rules)], fontsize=8)
    left.set_xticks(range(len(apart)), [str(i + 1) for i in range(len(apart))], fontsize=8)
    left.set_title("Distance between the answers", fontsize=11)
    right.plot(np.arange(len(comparison.moves)), comparison.moves, marker="o", ms=4)
    right.set_title("How MeanwO's answer moves as f grows", fontsize=11)
    right.set_xlabel("f")
    right.set_ylabel("distance to the mean of all, in spreads")
    right.grid(alpha=0.3)
    save_figure(figure, out)
