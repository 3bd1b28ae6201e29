"""How far rules are from the optimum on given vectors, from each other, and how their answers move as f grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.rules import MeanExact, MeanwO
from holdfast.rules.clustering import sums_of_squares
from holdfast.rules.decision import Decision
from holdfast.updates import read


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rules on the same vectors.

    `costs` are the sums of squares of the sets that rules kept, over the optimum for sets of n - f (nan for rules that
    keep no such set), `apart` the distances between the answers, `moves` the distance of MeanwO's answer at each f
    to that at f = 0, in units of the spread there.
    """

    rules: list[Any]
    decisions: list[Decision]
    costs: np.ndarray
    proven: bool
    apart: np.ndarray
    moves: np.ndarray


def compare(X: Any, rules: list[Any], f: int, like: Any = None, rng: np.random.Generator | None = None) -> Comparison:
    """Run the rules, the optimum for the given f, and MeanwO for every f that n allows."""
    if not rules:
        raise BadInput("nothing was given to compare; name at least one rule.")
    decisions = [rule.decide(X, like=like, rng=rng if rule.random else None) for rule in rules]
    best = MeanExact(f).decide(X, like=like)
    given = read(X, "compare", like)
    points = Points.rows(given, best.rows)
    D, scale = distances(points)
    optimum = (best.cost or 0.0) * scale**2
    ratios = [_ratio(D, decision, best, optimum) for decision in decisions]
    values = [_flat(decision.value) for decision in decisions]
    apart = np.array([[np.linalg.norm(a - b) for b in values] for a in values])
    n = len(best.rows)
    answers = [_flat(MeanwO(k).decide(X, like=like).value) for k in range((n + 1) // 2)]
    unit = np.sqrt(D.sum() / 2) / n / scale or 1.0
    moves = np.array([np.linalg.norm(answer - answers[0]) for answer in answers]) / unit
    proven = best.bound is not None and best.cost is not None and best.bound >= best.cost * (1 - 1e-9)
    return Comparison(rules, decisions, np.array(ratios), proven, apart, moves)


def _ratio(D: np.ndarray, decision: Decision, best: Decision, optimum: float) -> float:
    """Sum of squares of the kept over the optimum; nan unless a rule keeps as many as the optimum does, evenly."""
    w = decision.weights[decision.rows]
    if len(decision.kept) != len(best.kept) or len(decision.rows) != len(best.rows) or np.ptp(w[w > 0]) > 1e-12:
        return float("nan")
    cost = float(sums_of_squares(D, (w > 0)[None])[0])
    return cost / optimum if optimum > 0 else 1.0 if cost == 0 else float("inf")


def _flat(value: Any) -> np.ndarray:
    parts = read([value], "compare").leaves
    return np.concatenate(
        [leaf.block(np.array([0]), 0, leaf.size, np.float64)[0] for leaf in parts if leaf.kind != "i"]
    )


def draw(comparison: Comparison, out: Any) -> None:
    """Left: where the answers lie, by their distances, in the plane; right: how the answer moves as f grows."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    place = _plane(comparison.apart)
    for rule, (x, y) in zip(comparison.rules, place, strict=True):
        left.scatter(x, y, s=40, zorder=2)
        left.annotate(repr(rule), (x, y), xytext=(5, 5), textcoords="offset points", fontsize=8)
    left.set_title("Where the answers lie", fontsize=11)
    left.set_aspect("equal", adjustable="datalim")
    left.margins(0.25)
    left.grid(alpha=0.3)
    right.plot(np.arange(len(comparison.moves)), comparison.moves, marker="o", ms=4)
    right.set_title("How MeanwO's answer moves as f grows", fontsize=11)
    right.set_xlabel("f")
    right.set_ylabel("distance to the mean of all, in spreads")
    right.grid(alpha=0.3)
    with rc_context({"svg.hashsalt": "holdfast"}):
        figure.savefig(out, metadata={"Date": None} if str(out).endswith(".svg") else None, dpi=150)


def _plane(apart: np.ndarray) -> np.ndarray:
    """Points in the plane with about these distances: classical scaling."""
    n = len(apart)
    J = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * J @ apart**2 @ J)
    top = np.argsort(-values)[:2]
    place = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    return place if place.shape[1] == 2 else np.hstack([place, np.zeros((n, 2 - place.shape[1]))])
