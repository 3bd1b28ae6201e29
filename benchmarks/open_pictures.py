"""The two pictures of docs/left-open.md: what a margin does to a vote, and what PTM does to attacks.

example:  python benchmarks/open_pictures.py
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from holdfast import CAF, CWTM, NNM, PTM, DnC, GeometricMedian, MeanwO, Numeric, OuterMean, TwoPhase
from holdfast.attacks import ALIE, PGA, Empire, Mimic, MinMax, MinSum, ScaledVariance, SignFlip, Spread, View
from holdfast.figures import new_figure, save_figure

DOCS = Path(__file__).parent.parent / "docs"
COLOURS = ("#7f7f7f", "#d55e00", "#0072b2", "#56b4e9")
N, F, D, ROUNDS, STEP, TILT, IMAGES = 15, 5, 30, 400, 0.1, 3.0, 24
VOTES: dict[str, Any] = {
    "Inner alone": None,
    "a vote without a margin": Numeric(),
    "a vote with the margin c = 0.05": Numeric(proximal=0.05),
    "a vote with the margin c = 0.25": Numeric(proximal=0.25),
}
ATTACKS = ("sneak", "siege", "jump", "flip")


def liars(kind: str, honest: np.ndarray, tilt: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the Byzantine workers send, who know everything."""
    mean, spread = honest.mean(axis=0), honest.std(axis=0)
    match kind:
        case "sneak":  # copies next to the honest vectors
            return np.tile(mean - spread * np.sign(mean), (F, 1)) + 1e-3 * rng.normal(size=(F, D))
        case "siege":  # far away, each elsewhere
            far = 20 * spread * np.sign(mean) * (1 + 0.5 * rng.random((F, 1)))
            return mean - far + 5 * rng.normal(size=(F, D))
        case "jump":  # Outer far away, where three honest workers would like to be
            towards = -tilt[: N // 2 + 1 - F].mean(axis=0)
            towards /= np.linalg.norm(towards)
            return mean - np.outer(np.arange(1, F + 1), towards) * 30 * (N - F) / F * rng.uniform(0.2, 1)
    return -np.tile(mean, (F, 1)) + 0.05 * rng.normal(size=(F, D))


def squared_gradient(kind: str, election: Numeric | None, seed: int) -> float:
    """The mean squared gradient over the second half of a training of quadratics whose workers differ."""
    rng = np.random.default_rng(seed)
    h, hessian = N - F, np.geomspace(0.05, 1, D)
    tilt = rng.normal(size=(h, D))
    tilt -= tilt.mean(axis=0)
    tilt *= TILT / np.sqrt(np.square(tilt).sum(axis=1).mean())
    at, squares = 3 * rng.normal(size=D), []
    rule = TwoPhase(MeanwO(F), OuterMean(F), election or Numeric())
    for _ in range(ROUNDS):
        squares.append(float(np.square(hessian * at).sum()))
        honest = hessian * at + tilt + rng.normal(size=(h, D)) / sqrt(D)
        both = rule.propose(np.vstack([honest, liars(kind, honest, tilt, rng)]))
        models = [at - STEP * one.value for one in (both.inner, both.outer)]
        gain = 0.5 * float(hessian @ (models[0] ** 2 - models[1] ** 2))
        apart = models[0] - models[1]
        seen = gain + tilt @ apart + np.linalg.norm(apart) * rng.normal(size=h) / sqrt(IMAGES)
        lies = np.full(F, -1e9 if gain > 0 else 1e9)  # for the model that is worse
        reports = [(i, (float(y), 0.0)) for i, y in enumerate([*seen, *lies])]
        outer = election is not None and rule.elect(both, reports, step=STEP).name == "outer"
        at = models[outer]
    return float(np.mean(squares[ROUNDS // 2 :]))


def draw_votes(out: Path) -> None:
    """Groups of bars: an attack each, a bar for each way to decide."""
    figure = new_figure(8.4, 3.6)
    axes = figure.subplots()
    for place, (name, election) in enumerate(VOTES.items()):
        heights = [fmean([squared_gradient(kind, election, seed) for seed in range(3)]) for kind in ATTACKS]
        at = np.arange(len(ATTACKS)) + 0.2 * (place - 1.5)
        axes.bar(at, heights, width=0.19, color=COLOURS[place], label=name)
        for x, height in zip(at, heights, strict=True):
            axes.text(x, height * 1.08, f"{height:.2g}", ha="center", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylim(0.005, 12)
    axes.set_xticks(range(len(ATTACKS)), ATTACKS)
    axes.set_ylabel("mean squared gradient\n(less is better)", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save_figure(figure, out)


LIARS = 14
RULES = (
    PTM(LIARS),
    DnC(LIARS),
    CAF(LIARS),
    NNM(LIARS) >> CWTM(LIARS),
    GeometricMedian(),
    CWTM(LIARS),
    MeanwO(LIARS),
)


def attacks() -> Iterator[Any]:
    """Attacks at many scales, with and without copies."""
    for scale in (0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0):
        yield Empire(scale=scale)
        yield Spread(Empire(scale=scale))
    for z in (0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0):
        yield ScaledVariance(z=-z)
        yield Spread(ScaledVariance(z=-z))
    yield from (ALIE(), MinMax(), MinSum(), Mimic(), SignFlip(), PGA(), PGA(spread=True))
    yield from (PGA(along="std"), PGA(along="std", spread=True))


def worst_error(rule: Any, n: int, f: int, d: int) -> float:
    """The largest distance to the honest mean over all attacks, in honest deviations."""
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(n - f, d)) + 1
    mean = honest.mean(axis=0)
    deviation = np.sqrt(np.square(honest - mean).sum(axis=1).mean())
    own, worst = rng.normal(size=(f, d)) + 1, 0.0
    for attack in attacks():
        sent = attack(View(honest=honest, own=own, rule=rule, rng=np.random.default_rng(1)))
        answer = rule(np.vstack([honest, sent]), **({"rng": np.random.default_rng(2)} if rule.random else {}))
        worst = max(worst, float(np.linalg.norm(answer - mean) / deviation))
    return worst


def _axes_of_the_round(axes: Axes) -> None:
    """Eleven points along a slope; the axes that CWTM trims along, and those that PTM trims along."""
    rng = np.random.default_rng(3)
    turn = np.array([[1.0, 0.9], [0.15, -0.15]])
    honest = rng.normal(size=(9, 2)) @ turn
    X = np.vstack([honest, np.array([[0.9, -1.2], [1.1, -1.35], [1.0, -1.5], [1.25, -1.3]])])
    centre, mean = X.mean(axis=0), honest.mean(axis=0)
    main = np.linalg.eigh(np.cov(X.T))[1]
    for k in range(2):
        for sides, colour, style in ((np.eye(2), "#d55e00", "--"), (main.T, "#0072b2", "-")):
            ends = np.array([centre - 2.4 * sides[k], centre + 2.4 * sides[k]])
            axes.plot(ends[:, 0], ends[:, 1], color=colour, linestyle=style, linewidth=1.2, zorder=1)
    axes.scatter(honest[:, 0], honest[:, 1], s=40, color="#56b4e9", edgecolor="#0b3c5d", label="honest", zorder=2)
    axes.scatter(X[9:, 0], X[9:, 1], s=36, color="black", marker="s", label="Byzantine", zorder=2)
    axes.scatter(mean[0], mean[1], s=170, color="#009e73", marker="*", label="honest mean", edgecolor="white", zorder=4)
    for rule, colour, marker in ((CWTM(4), "#d55e00", "^"), (PTM(4), "#0072b2", "D")):
        label = f"{type(rule).__name__}, with its axes"
        at = rule(X)
        axes.scatter(at[0], at[1], s=62, color=colour, marker=marker, label=label, edgecolor="white", zorder=3)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title("Trim along the axes of the round", fontsize=10)
    axes.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3)


def draw_ptm(out: Path) -> None:
    """The axes in the plane; then the worst error of seven rules over many attacks."""
    figure = new_figure(8.4, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _axes_of_the_round(left)
    errors = {repr(rule).replace("f=14", "f"): worst_error(rule, 35, LIARS, 1000) for rule in RULES}
    names = sorted(errors, key=errors.__getitem__)
    right.barh(
        names, [errors[name] for name in names], color=["#0072b2" if "PTM" in name else "#bbb" for name in names]
    )
    for place, name in enumerate(names):
        right.text(errors[name] + 0.02, place, f"{errors[name]:.2f}", va="center", fontsize=8)
    right.invert_yaxis()
    right.spines[["top", "right"]].set_visible(False)
    right.tick_params(labelsize=8)
    right.set_title(f"Worst error over {len(list(attacks()))} attacks, n = 35, f = 14, d = 1,000", fontsize=10)
    right.set_xlabel("distance to the honest mean, in honest deviations", fontsize=8)
    save_figure(figure, out)


if __name__ == "__main__":
    draw_votes(DOCS / "left-open-vote.svg")
    draw_ptm(DOCS / "left-open-ptm.svg")
