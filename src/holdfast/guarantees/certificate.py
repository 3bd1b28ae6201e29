"""What can be said of one round, whichever workers were Byzantine.

The true honest vectors are some S of n - f of the n, nobody knows which. If workers count differently, S is any set
whose complement holds at most as much as the f heaviest, and its mean and variance are weighted (sets.py). Relative to
their variance, the distance of any rule's answer to their mean is bounded for every S (relative.py); in the units of
the vectors, it is under assumptions that are said. The proofs are in docs/guarantees.md, "Certificates of a round".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from holdfast.decision import Decision
from holdfast.errors import BadInput
from holdfast.geometry import TRUST, distances
from holdfast.guarantees.bounds import Bound, bounds, tolerance
from holdfast.guarantees.instance import instance_bound
from holdfast.guarantees.rates import check_number
from holdfast.guarantees.relative import FIRST, doubt, lengths, relative
from holdfast.guarantees.semidefinite import semidefinite
from holdfast.guarantees.sets import Sets
from holdfast.leaves import Leaf
from holdfast.masses import nearest_mass
from holdfast.points import Points
from holdfast.reading import Measure, read
from holdfast.rules import MDA, SMEA, CenterExact, GeometricMedian, MeanExact, MeanwO, Medoid, NearestTo, StreamCenterwO
from holdfast.rules.base import Chain
from holdfast.rules.clustering import radii
from holdfast.updates import Distances, Updates

__all__ = ["Certificate", "certificate"]

Array = np.ndarray
COARSE = {"bfloat16": 2.0**-7, "float16": 2.0**-10}  # what is computed in float32 and told in less
MEDIAN_ERROR = 1e-6  # of a radius: how well the searches for a median find it


@dataclass(frozen=True)
class Certificate:
    """The promises of one round, for every set S of n - f of the n vectors that were looked at.

    Parameters
    ----------
    rule : str
        The rule as text.
    n : int
        How many vectors were looked at.
    f : int
        How many of them may be Byzantine.
    kappa : float
        Every S has ‖F - mean of S‖² ≤ kappa · variance of S. This is relative. It says nothing in the units of the
        vectors, since f honest workers may be anywhere and no server can bound the distance to their mean.
    how : str
        What kappa follows from.
    anywhere : float
        Every S has ‖F - mean of S‖ ≤ anywhere, which Byzantine workers can make as large as they like.
    deviation : float or None
        The standard deviation of the kept vectors. None: F is not the mean of n - f of the vectors.
    pull : float or None
        Every S has ‖F - mean of the kept in S‖ ≤ pull, which is all that Byzantine workers can do to the kept honest
        ones. None: F is not the mean of n - f of the vectors.
    alpha : float or None
        How many times the least possible sum of squares the kept vectors have at most.
    offset : float
        How far F, as it was given, is from the mean of the kept vectors at most.
    least : float or None
        No answer to these vectors has a kappa below this. None: it was not asked for, or no bound was found.
    share : float or None
        For workers that count differently, the part of the weight that the f heaviest hold. S is then any set of
        workers whose complement holds at most this part, and means and variances are weighted.

    Notes
    -----
    F is the weighted sum before it is rounded to the dtype of the updates, or, where the updates were measured again,
    the answer as it was given. With `measure=`, everything is about the measured entries alone. docs/guarantees.md has
    the proofs, in "Certificates of a round".

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.guarantees.certificate import certificate
    >>> certificate(MeanwO(f=1).decide([[0.0], [0.1], [0.2], [0.1], [9.0]])).f
    1
    """

    rule: str
    n: int
    f: int
    kappa: float
    how: str
    anywhere: float
    deviation: float | None = None
    pull: float | None = None
    alpha: float | None = None
    offset: float = 0.0
    least: float | None = None
    share: float | None = None

    def within(self, deviation: float | None = None) -> float | None:
        """Return how far the mean of any S of at most this deviation can be from F.

        Parameters
        ----------
        deviation : float, optional
            The assumed deviation. Without it, that of the kept vectors.

        Returns
        -------
        float or None
            Every S of deviation at most this has ‖F - mean of S‖ ≤ the result. None: F is not the mean of n - f of the
            vectors.
        """
        if deviation is not None:
            check_number("within", "deviation", deviation)
        if self.deviation is None:
            return None
        spread = self.deviation if deviation is None else deviation
        held = self.f / self.n if self.share is None else self.share
        by_lemma = sqrt(held / (1 - 2 * held)) * (spread + self.deviation) + self.offset
        return min(by_lemma, sqrt(self.kappa) * spread if self.kappa < inf else inf, self.anywhere)

    def __str__(self) -> str:
        weighted = "" if self.share is None else f" (at most {self.share:.3g} of the weight)"
        about = f"{self.rule}, n = {self.n}, f = {self.f}{weighted}: "
        if self.kappa < inf:
            mean = "mean" if self.share is None else "weighted mean"
            about += f"for any {self.f} liars, the {mean} of the others is within {sqrt(self.kappa):.3g} of their "
            lines = [about + f"standard deviations (κ = {self.kappa:.3g}, from {self.how})."]
        else:
            lines = [about + "nothing is proved of this round in units of the honest deviation."]
        if self.least is not None:
            lines += [f"No answer to these vectors can have a κ below {self.least:.3g}, whatever rule gives it."]
        if self.pull is not None:
            lines += [
                f"Liars moved the mean of the kept honest vectors by at most {self.pull:.3g}.",
                f"If the honest deviation is at most that of the kept ({self.deviation:.3g}), their mean is within "
                f"{self.within():.3g}.",
            ]
        lines += [f"Without any assumption it is within {self.anywhere:.3g}, which liars can make large."]
        return "\n".join(lines)


def certificate(
    decision: Decision,
    X: Any = None,
    *,
    f: int | None = None,
    measure: Measure | None = None,
    sharp: bool = False,
    bound: bool = False,
) -> Certificate:
    """Return what is certain about the decision of a round.

    Parameters
    ----------
    decision : Decision
        What the `decide` of a rule returned.
    X : array or sequence of updates, optional
        The same updates again, for rules that did not measure all distances. They are measured once in float64.
    f : int, optional
        How many workers may be Byzantine, for rules that have no f.
    measure : callable, optional
        The same as for the decision.
    sharp : bool
        Whether kappa is made smaller by a second proof. It takes up to 40 steps of O(n³), some milliseconds at n = 35.
    bound : bool
        Whether `least` is looked for, the κ that no answer can be below. It takes some 20 ms at n = 35.

    Returns
    -------
    Certificate
        Bounds that hold for every set of workers that could be the honest ones.

    Raises
    ------
    BadInput
        If the rule did not measure all distances and X is missing, or if X has another number of updates.

    Notes
    -----
    Cost: O(n² log n) after the distances, which the decision has if the rule measured them all.

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.guarantees.bounds import bounds
    >>> from holdfast.guarantees.certificate import certificate
    >>> round_ = MeanwO(f=1).decide([[0.0], [0.1], [0.2], [0.1], [9.0]])
    >>> certificate(round_).kappa < bounds(MeanwO(f=1), 5)["kappa"].ours.value
    True
    """
    n = len(decision.rows)
    f = tolerance(decision.rule, n, f)
    sets = Sets.of(decision, f)
    w, D, error, scale = decision.weights[decision.rows], decision.distances, decision.error, 1.0
    clear, rounding = True, (0.0, 0.0)
    if D is not None and not decision.mixed and abs(w.sum() - 1) <= 1e-9:
        w, clear = w / w.sum(), decision.scale == 1.0  # else digits were lost on the way back into the units
    else:
        D = None
    if D is None or not (clear or X is None):
        if X is None:
            raise BadInput(f"{decision.rule!r} did not measure all distances; pass the updates as well, as X.")
        D, scale, error, rounding = _measured(decision, X, measure, n - f)
        w, clear = np.append(np.zeros(n), 1.0), True
        rounding = (_roundings(decision.rule, sets, f) * rounding[0], rounding[1])
    kept = _kept(decision, sets)
    optimum_bound = decision.bound if isinstance(decision.rule, MeanExact) and D is decision.distances else None
    T, alpha, least = _spread(D[:n, :n], kept, sets, error, optimum_bound)
    with np.errstate(over="ignore"):  # back into the units of the vectors
        e = lengths(D, w, error)[:n] / scale
    offset = 0.0 if kept is None or len(D) == n else _offset(D, kept, error)
    if not clear or error == inf:  # a measured zero between vectors that differ, or digits that were lost
        T, alpha, e = None, None, np.full(n, inf)
    kappa, how = min(
        (_of_round(D, w, sets, error, sharp=sharp) if clear and error < inf else inf, "this round's vectors"),
        (_moved(_approximation(alpha, sets), offset, least), "its cost and the least that any set can have"),
        (_rounded(_promised(decision, sets, f), D, sets, error, *rounding), "the rule's own bound"),
        key=lambda constant: constant[0],
    )
    deviation = None if T is None else sqrt(T / sets.h) / scale
    mass = None if sets.equal else sets.mass
    return Certificate(
        repr(decision.rule),
        n,
        f,
        kappa,
        how,
        _anywhere(e, kept, sets) + offset / scale,
        deviation,
        None if deviation is None else sets.aside * deviation + offset / scale,
        alpha,
        offset / scale,
        instance_bound(D[:n, :n], f, error=error, mass=mass) if bound and clear and error < inf else None,
        None if sets.equal else sets.share,
    )


def _of_round(D: Array, w: Array, sets: Sets, error: float, *, sharp: bool) -> float:
    """κ(X) by the quick proof, or the smaller of both."""
    return min(relative(D, w, sets, error), semidefinite(D, w, sets, error) if sharp else inf)


def _measured(
    decision: Decision, X: Any, measure: Measure | None, core: int
) -> tuple[Array, float, float, tuple[float, float]]:
    """Distances of the rows that were looked at, and of the answer as one more; their scale, error; see _rounded."""
    given = X if isinstance(X, Updates) else read(X, repr(decision.rule), like=decision.value, measure=measure)
    if given.n != decision.n:
        raise BadInput(f"X has {given.n} updates, the decision is about {decision.n}; pass the same updates.")
    at = given.place(decision.value, f"{decision.rule!r} gave an answer")
    points = Points.rows(given, decision.rows, at).anchored(("start",))
    if isinstance(X, Updates):
        D, scale, error = _with_answer(points, core)
    else:
        D, scale, error = distances(points, wide=True, core=core)
    leaves = [leaf for leaf in given.floats if leaf.measured]
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm([_length(leaf) for leaf in leaves]))
    return D, scale, error, (max(map(rounding_of, leaves), default=0.0), scale * size)


def _with_answer(points: Points, core: int) -> Distances:
    """The distances of all points and of the answer, their anchor; those of the points may be known from before."""
    rows = distances(Points.rows(points.source, points.names()), wide=True, core=core)
    answer = distances(points, np.array([points.k]), wide=True, core=core)
    if rows.scale != answer.scale:
        return distances(points, wide=True, core=core)
    far = answer.D[0, :-1]
    D = np.block([[rows.D, far[:, None]], [far, np.zeros(1)]])
    return Distances(D, rows.scale, max(rows.error, answer.error))


def rounding_of(leaf: Leaf) -> float:
    """The part by which a number may change when the answer takes its dtype."""
    name = str(leaf.dtype).rpartition(".")[2]
    return max(COARSE.get(name, 0.0), 2.0**-52 if leaf.computed == "f8" else 2.0**-23)


def _length(leaf: Leaf) -> float:
    """The length of the answer, which is the leaf's last row of ours."""
    place = leaf.place
    return float(np.sqrt(place.fetch(place.squares(place.cast(leaf.extras[-1], "f8")[None, :]))[0]))


def _offset(D: Array, kept: Array, error: float) -> float:
    """How far the answer, the last point, is from the mean of the kept at most."""
    return float(lengths(D, np.append(kept / kept.sum(), 0.0), error)[-1])


def _rounded(kappa: float, D: Array, sets: Sets, error: float, unit: float, size: float) -> float:
    """κ of an answer of that length whose numbers were summed and rounded, each to a part `unit`."""
    if not unit or kappa == inf:
        return kappa
    n, terms = sets.n, sets.n if sets.equal else sets.n + 2  # products with weights are rounded too
    least = sets.least_squares(D[:n, :n]) / sets.h * (1 - doubt(D, error))
    wider = 4 * terms * unit * sqrt(sets.reach)
    if least <= 0 or wider >= 1:
        return inf
    return float((sqrt(kappa) + wider + terms * unit * size / sqrt(least)) / (1 - wider)) ** 2


def _roundings(rule: Any, sets: Sets, f: int) -> float:
    """How many times the rounding of one sum counts: that of the answer, and that of what the answer was made from."""
    if isinstance(rule, NearestTo):
        return 1 + sets.aside
    if not isinstance(rule, Chain):
        return 1.0
    last = _constant(rule.parts[-1], sets, f)
    return inf if last is None else 2 + sqrt(last.value)


def _constant(rule: Any, sets: Sets, f: int) -> Bound | None:
    """The rule's κ for all rounds."""
    return bounds(rule, sets.n, f, share=None if sets.equal else sets.share)["kappa"].ours


def _kept(decision: Decision, sets: Sets) -> Array | None:
    """How much of each vector is kept, if the answer is the mean of exactly h of them, one at most in part."""
    kept = decision.weights[decision.rows] * sets.h
    if decision.measure != "weight" or decision.mixed:
        return None
    whole = (np.abs(kept) < 1e-9) | (np.abs(kept - sets.mass) < 1e-9 * sets.mass)
    fits = (kept >= 0).all() and (kept <= sets.mass * (1 + 1e-9)).all() and abs(kept.sum() - sets.h) <= 1e-9 * sets.h
    return kept if fits and (~whole).sum() <= (0 if sets.equal else 1) else None


def _spread(
    D: Array, kept: Array | None, sets: Sets, error: float, optimum_bound: float | None = None
) -> tuple[float | None, float | None, float]:
    """T, the kept vectors' sum of squares, how many times the least one it is at most, and the least variance.

    `optimum_bound` is what MeanExact's search did not go below, where masses have the mean 1.
    """
    if kept is None:
        return None, None, 0.0
    h, unsure, on = sets.h, doubt(D, error), np.flatnonzero(kept)
    T = float(kept[on] @ D[np.ix_(on, on)] @ kept[on]) / (2 * h) * (1 + unsure)
    least = sets.least_squares(D) * (1 - unsure)
    if optimum_bound is not None:
        least = max(least, optimum_bound * float(sets.mass.mean()) * (1 - unsure) / (1 + _unsure(sets)))
    return T, 0.0 if T == 0 else (T / least if least > 0 and isfinite(T) else inf), max(0.0, least) / h


def _unsure(sets: Sets) -> float:
    """The part of the least sum of squares that MeanExact's search does not look at: 1e-11 of that of all it opens.

    Two vectors that can be in a better set share neighbours of mass q. So what it opens has at most 2nh/q times its
    cost, and that cost is at most twice the least.
    """
    return 1e-10 * sets.n * sets.h / sets.q


def _moved(kappa: float, offset: float, least: float) -> float:
    """κ of an answer that is this far from the mean of the kept, if every S has at least this variance."""
    if offset == 0 or kappa == inf:
        return kappa
    return (sqrt(kappa) + offset / sqrt(least)) ** 2 if least > 0 else inf


def _approximation(alpha: float | None, sets: Sets) -> float:
    return inf if alpha is None else (1 + sqrt(alpha)) ** 2 * sets.out / sets.q


def _promised(decision: Decision, sets: Sets, f: int) -> float:
    """The rule's bound for all rounds, with what rounding and a search that did not end may add."""
    rule = decision.rule
    parts = rule.parts if isinstance(rule, Chain) else (rule,)
    last = parts[-1]
    unknown = len(parts) > 1 or isinstance(rule, StreamCenterwO)  # their first distances' error is not told
    error = FIRST * max(decision.error, TRUST[False] if unknown else 0.0)
    error *= 16 * sets.h if isinstance(last, SMEA) else 1
    wider = ((1 + error) / (1 - error)) ** 2 if error < 1 else inf
    if isinstance(last, GeometricMedian | Medoid):
        wider *= (1 + MEDIAN_ERROR * (1 + sqrt(sets.reach))) ** 2
    if f and isinstance(last, MeanExact | CenterExact | MDA | SMEA):
        return wider * _searched(decision, last, sets, f)
    constant = _constant(rule, sets, f)
    return constant.value * wider if constant is not None and not constant.fails else inf


def _searched(decision: Decision, last: Any, sets: Sets, f: int) -> float:
    """κ of a search, by how far from the best it may be at most; at least as good as where it started from."""
    h, aside, cost, bound = sets.h, sets.aside, decision.cost, decision.bound
    miss = inf if cost is None or not bound else cost / bound
    miss = 1.0 if cost == 0 else max(1.0, miss)
    if decision.rule is not last:  # behind NNM
        constant = _constant(decision.rule, sets, f)
        return inf if constant is None or miss > 1 + 1e-6 else constant.value * miss**2 * (1 + _unsure(sets))
    if isinstance(last, MDA):  # the diameter is in the place of the least one
        return (min(miss, 2.0) * sqrt(2) * f / sqrt(h) + aside) ** 2
    if isinstance(last, SMEA):  # its start has at most twice the least sum of squares
        return (1 + sqrt(min(miss, 2.0))) ** 2 * aside**2
    if isinstance(last, MeanExact):
        started = _constant(MeanwO(f), sets, f)
        assert started is not None
        return min(started.value, (1 + sqrt(miss * (1 + _unsure(sets)))) ** 2 * aside**2)
    found_at = (miss * 2 * f * sqrt(h - 1) / h + aside) ** 2
    if cost is None or decision.distances is None:
        return found_at
    radius = sqrt(float(radii(decision.distances, int(h)).min()))  # CenterwO's, on which its search improves
    return min(found_at, (max(1.0, cost / radius if radius else 1.0) * 2 * f / sqrt(h - 1) + aside) ** 2)


def _anywhere(e: Array, kept: Array | None, sets: Sets) -> float:
    each = e / sets.h  # their sum has room where that of e has none
    with np.errstate(over="ignore"):
        if kept is None:
            return sets.largest(each)
        outside = np.maximum(sets.mass - kept, 0.0)
        moved = nearest_mass(-each[None], np.maximum(kept, 0.0), sets.out)[0]
        return float(sum((part * np.where(part > 0, each, 0.0)).sum() for part in (outside, moved)))
