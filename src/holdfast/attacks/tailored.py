"""Attacks that search, in every round, against the very rule that they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, copies, gram, lengths, spread
from holdfast.attacks.hidden import Direction, direction
from holdfast.attacks.informed import moments
from holdfast.attacks.steps import search_levels, search_thoroughly
from holdfast.errors import BadInput
from holdfast.rules.base import CoordinateRule
from holdfast.twophase import TwoPhase
from holdfast.values import value

Harm = Callable[[View, Rows], tuple[bool, float]]
"""Whether it is what the attacker wants, and how much; compared in this order."""
COLUMNS = 8192  # coordinates that stand for all where each is treated alike


@value
class PGA(Attack):
    r"""PGA in its STAT-OPT form: the step against the mean that moves this rule's answer farthest.

    Parameters
    ----------
    along : "sign", "std", "mean" or "coordinate"
        The direction p. "sign": the unit vector along the signs of the mean (Shejwalkar et al. 2022). "std": along the
        deviations, the optimised form of ALIE. "mean": along the mean, the optimised IPM. "coordinate": along the one
        coordinate in which the mean is largest, the hidden coordinate of El Mhamdi et al. 2018.
    spread : bool
        Whether the rows keep honest distances instead of being copies.
    thorough : bool
        Whether the search asks longer: with both signs along "std", and with the line search of ByzFL's optimised
        attacks as well, so that it does at least their harm. It asks the rule up to 140 times instead of 43.

    Notes
    -----
    .. math:: \bar x_H - \gamma p, \quad \gamma \in \arg\max \lVert F(X) - \bar x_H \rVert

    γ is searched on the scale of the honest spread, from 1/64 to 512 of its root mean square, then to a sixteenth of
    an octave around the best. Against two-phase rules it maximises the nearer of both candidates, as the program of Yi
    et al. 2024 does.

    The texts `OptALIE()` and `OptIPM()` stand for `PGA(along="std", thorough=True)` and `PGA(along="mean",
    thorough=True)`, and `HiddenCoordinate()` for `PGA(along="coordinate")`. A shift of one coordinate by γ costs γ in
    distance. The spread of honest rows over d coordinates grows with √d, so rules that look at distances alone let one
    coordinate move by √d of its deviations.

    The text of Yi et al. has :math:`\bar x_H + \gamma \, \mathrm{sign}`, which strengthens the honest step; the
    program subtracts, as here. The program searches γ in absolute numbers from 1, far outside the cloud, per rule in
    another direction, and multiplies by 1e20 against the average. Sneak or siege, as the rule deserves.

    References
    ----------
    .. [1] Shejwalkar et al. 2022, "Back to the Drawing Board: A Critical Evaluation of Poisoning Attacks on
       Production Federated Learning".
    .. [2] El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium", the hidden
       coordinate.
    .. [3] Allouah et al. 2023a, "Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity", the
       optimised ALIE and IPM.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWM
    >>> from holdfast.attacks import PGA, View
    >>> seen = View(honest=np.array([[1.0], [1.2], [0.8]]), own=np.ones((2, 1)), rule=CWM(), f=2)
    >>> PGA()(seen)[0] < 0.8
    array([ True])
    """

    along: Direction = "sign"
    spread: bool = False
    thorough: bool = False
    kind = "either"
    formula = "mean_H - γ p, γ by search against the rule; p = sign(mean_H) unless told"
    source = "Shejwalkar et al. 2022"

    def __call__(self, seen: View) -> Rows:
        if not len(seen.own):
            return seen.own
        return _along(seen, self, harm=damage)


@value
class Canvass(Attack):
    """For two-phase rounds: does as much harm as it can while the election still goes the wrong way.

    Parameters
    ----------
    along : "sign", "std", "mean" or "coordinate"
        The direction p, as in `PGA`.
    spread : bool
        Whether the rows keep honest distances instead of being copies.
    by : "loss" or "distance"
        How harm is measured: by the honest workers' mean loss where the view has losses, or by the distance from the
        honest mean. With losses it votes some forty times in each round; "distance" does without them.

    Notes
    -----
    Of all γ (as in `PGA`) for which the elected candidate is the worse of the two, it takes the one whose elected
    candidate does most harm. If there is none, it takes the one whose elected candidate does most harm anyway. The
    election is played through with the honest workers' losses where the view has them, and else by distance from the
    honest mean; the Byzantine workers report the honest mean losses exchanged. Against other rules it is PGA.

    References
    ----------
    The attack is ours. `PGA` has the source of its search.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Mean2P
    >>> from holdfast.attacks import Canvass, View
    >>> seen = View(honest=np.array([[1.0], [1.2], [0.8]]), own=np.ones((2, 1)), rule=Mean2P(f=2), f=2)
    >>> Canvass()(seen).shape
    (2, 1)
    """

    along: Direction = "sign"
    spread: bool = True
    by: Literal["loss", "distance"] = "loss"
    kind = "either"
    formula = "mean_H - γ p, γ by search against the election"
    source = "holdfast"

    def __call__(self, seen: View) -> Rows:
        if not isinstance(seen.rule, TwoPhase) or not len(seen.own):
            return PGA(self.along, self.spread)(seen)
        if self.by == "distance":
            seen = replace(seen, losses=None)
        return _along(seen, PGA(self.along, self.spread), harm=_elected, whole=seen.losses is not None)


def _along(seen: View, how: PGA, *, harm: Harm, whole: bool = False) -> Rows:
    """The rows mean - γ p of the γ that does most harm."""
    mean, p = seen.honest.mean(axis=0), direction(seen.honest, how.along)
    p = p if p.any() else np.full_like(p, 1 / np.sqrt(len(p)))
    spreads = lengths(seen.honest - mean)
    unit = float(np.sqrt(np.square(spreads).mean())) or float(lengths(mean[None])[0]) or 1.0
    if not np.isfinite(unit) or not np.isfinite(p).all():  # honest rows so large that their squares are not
        return copies(mean, seen.own)
    small = Small(seen, mean, p * unit) if whole else Small.of(seen, mean, p * unit)

    def harmful(gamma: float) -> tuple[bool, float]:
        try:
            with np.errstate(all="ignore"):
                wanted, harm_done = harm(small.seen, small.rows(gamma, apart=how.spread))
        except BadInput:  # a rule that refuses so few rows
            return False, -np.inf
        return wanted, -np.inf if np.isnan(harm_done) else harm_done

    if how.thorough:
        signs = (1, -1) if how.along == "std" else (1,)  # a deviation has no sign, and the others mean theirs
        best = search_thoroughly(harmful, signs, _line(seen.honest, how.along, unit))
    else:
        best = search_levels(harmful)
    return Small(seen, mean, p * unit).rows(best, apart=how.spread)


def _line(honest: Rows, along: Direction, unit: float) -> tuple[float, float]:
    """Start and first step of ByzFL's search as γ: its rows are mean + τ std over h - 1, and -τ mean, τ = 0, 10, ..."""
    if along == "mean":
        length = float(lengths(honest.mean(axis=0)[None])[0]) / unit
        return length, 10 * length
    if along == "std" and len(honest) > 1:
        deviations = moments(honest)[1] * np.sqrt(len(honest) / (len(honest) - 1))
        return 0.0, 10 * float(lengths(deviations[None])[0]) / unit
    return 0.0, 0.0


@dataclass(frozen=True, eq=False)
class Small:
    """The same round in fewer coordinates: what makes a search affordable.

    Rules that look at distances alone commute with isometries, so the span of all rows will do, up to rounding; rules
    that treat every coordinate alike are judged on those that vary most and a sample of the others. Other rules see the
    round as it is. p is as long as the honest spread.
    """

    seen: View
    mean: np.ndarray
    p: np.ndarray

    @staticmethod
    def of(seen: View, mean: np.ndarray, p: np.ndarray) -> Small:
        rules = (seen.rule.inner, seen.rule.outer) if isinstance(seen.rule, TwoPhase) else (seen.rule,)
        stages = [stage for rule in rules for stage in rule.stages()]
        h, b, d = len(seen.honest), len(seen.own), len(p)
        if not any(isinstance(stage, CoordinateRule) for stage in stages) and d > h + b + 3:
            start = np.zeros((0, d)) if seen.start is None else np.asarray(seen.start, dtype=p.dtype).reshape(1, d)
            shift = 0 if any(stage.anchors for stage in stages) else mean  # no anchor: they commute with shifts too
            C = _coordinates(np.vstack([seen.honest - shift, seen.own - shift, p[None], start]))
            small = replace(seen, honest=C[:h], own=C[h : h + b], start=C[h + b + 1] if len(start) else None)
            return Small(small, C[:h].mean(axis=0), C[h + b])
        if all(isinstance(stage, CoordinateRule) for stage in stages) and d > COLUMNS:
            order = np.argsort(-np.maximum(np.abs(p), seen.honest.std(axis=0)), kind="stable")
            rest = np.random.default_rng(0).choice(order[COLUMNS // 2 :], COLUMNS // 2, replace=False)
            columns = np.concatenate([order[: COLUMNS // 2], rest])
            return Small(
                replace(seen, honest=seen.honest[:, columns], own=seen.own[:, columns]), mean[columns], p[columns]
            )
        return Small(seen, mean, p)

    def rows(self, gamma: float, *, apart: bool) -> Rows:
        row = self.mean - gamma * self.p
        return spread(row, self.seen.own) if apart else copies(row, self.seen.own)


def _coordinates(A: Rows) -> np.ndarray:
    """Rows of an isometric copy in as many coordinates as there are rows."""
    values, vectors = np.linalg.eigh(np.nan_to_num(gram(A)))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def damage(seen: View, rows: Rows) -> tuple[bool, float]:
    """Distance of the answer, or of the nearer candidate, from the honest mean."""
    mean = seen.honest.mean(axis=0)
    X = np.concatenate([seen.honest, rows])
    return True, min(float(np.linalg.norm(np.asarray(answer - mean, dtype=np.float64))) for answer in seen.answers(X))


def _elected(seen: View, rows: Rows) -> tuple[bool, float]:
    """Whether the worse candidate is elected, and the harm that the elected one does."""
    rule: TwoPhase = seen.rule
    X = np.concatenate([seen.honest, rows])
    rng = np.random.default_rng(0)
    candidates = rule.propose(X, rng=rng, start=seen.start)
    decisions = (candidates.inner, candidates.outer)
    mean = seen.honest.mean(axis=0)
    if seen.losses is None:
        felt = np.array([[np.linalg.norm(one.value - mean)] * len(seen.honest) for one in decisions]).T
    else:
        felt = np.stack([seen.losses(one.value) for one in decisions], axis=1)
    lie = felt.mean(axis=0)[::-1]  # the liars' losses: the other way round
    reports = [*enumerate(felt), *((len(felt) + i, lie) for i in range(len(rows)))]
    step = seen.step if 0 < seen.step < np.inf else 1.0  # without a step both models are the same
    winner = rule.elect(candidates, reports, step=step)
    harms = felt.mean(axis=0)
    chosen = harms[0 if winner.name == "inner" else 1]
    return bool(chosen >= harms.max()), float(chosen)
