"""Rules that average the vectors nearest to something: the origin, a trusted worker, a coordinate rule's answer."""

from __future__ import annotations

import numpy as np

from holdfast.errors import BadInput
from holdfast.rules.base import CoordinateRule, DistanceRule, Distances, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clipping import pulled
from holdfast.rules.clustering import even, nearest
from holdfast.values import WorkerIndex


@value
class Medoid(DistanceRule):
    r"""The vector of least summed distance to all others.

    .. math:: F(X) = x_j, \quad j \in \arg\min_i \sum_k \lVert x_i - x_k \rVert

    The geometric median among the vectors themselves; needs no f. Vectors beyond 1e8 radii count from there, along
    their ray, so that a liar at 1e300 cannot make all sums equal. Krum as some libraries write it, without f, is
    this with squared distances. O(n² d) time. Ties go to the lowest index.

    >>> Medoid()(np.array([[0.0], [1.0], [1.5], [90.0]]))
    array([1.])
    """

    formula = "x_j, j = argmin_i Σ ‖x_i - x_k‖ over all k"
    promise = "κ ≤ (1+2√2(n-f)/(n-2f))²"
    time = "n² d"
    precise = True
    majority = True
    why = "its sum of distances is not the least"
    fails = "nobody need lie: the answer is one vector, with all of its noise"
    source = "Kaufman and Rousseeuw 1987"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "medoid")  # next to a far vector's distance the others' differences would be lost

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return even(np.sqrt(D).sum(axis=1).argmin(keepdims=True), len(D))


@value
class CGE(DistanceRule):
    r"""Mean of the n - f vectors of least norm: comparative gradient elimination (Gupta et al. 2020).

    .. math:: F(X) = \tfrac{1}{n-f} \sum_{i \in S} x_i, \quad S \text{ the } n - f \text{ of least } \lVert x_i \rVert

    Liars whose vectors are not longer than the honest ones all stay in. Depends on where the origin is.
    O(n d) time. Ties go to the lowest index. Some libraries return the sum, not the mean.

    >>> CGE(f=1)(np.array([[1.0], [2.0], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    anchors = ("origin",)
    formula = "mean of the n-f of least ‖x_i‖"
    promise = "bounded by the honest norms, not by their spread"
    time = "n d"
    why = "among the f longest"
    fails = "against liars that are no longer than the honest: a flipped sign has the same norm"
    source = "Gupta et al. 2020"

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        return even(nearest(D[:, :n], 0, n - self.f), n + 1)


@value
class MoNNA(DistanceRule):
    r"""Mean of the n - f vectors nearest to a trusted one: what an honest worker computes (Farhadkhani et al. 2023).

    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(x_p)} x

    with p the `pivot`, the worker's own number, and :math:`K(x_p)` the n - f vectors nearest to its vector, itself
    included. Worth what the pivot is worth: a liar there chooses the answer. Refuses when the pivot was dropped.
    O(n d) time. Ties go to the lowest index.

    >>> MoNNA(f=1, pivot=2)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    pivot: WorkerIndex
    formula = "mean of the n-f nearest to x_pivot"
    promise = "that of K(x_p), if the pivot is honest"
    time = "n d"
    why = "among the f farthest from the pivot"
    fails = "if the pivot lies: it chooses the answer"
    source = "Farhadkhani et al. 2023"

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        at = np.flatnonzero(rows == self.pivot)
        if len(at) == 0:
            raise BadInput(
                f"{self!r} was given no usable vector {self.pivot}; choose a pivot that is there and finite."
            )
        return at

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1]
        return even(nearest(D, 0, n - self.f), n)


@value
class NearestTo(DistanceRule):
    r"""Mean of the n - f vectors nearest to the answer of a coordinate rule, in linear time.

    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(c)} x, \quad c = G(X)

    with G the rule, f its f. Around CWTM(f) this is an (n-f)/(n-2f)-approximation of 1-mean clustering with outliers
    and a (1 + √((n-f)/(n-2f)))-approximation of 1-center: better than MeanwO's 2 for f < n/3. O(n d) beyond the
    rule itself, one pass more. The linear time that Yi et al. 2024 point to (Narayanan 2018), for one cluster and
    more than half of the vectors. Ties go to the lowest index.

    >>> NearestTo(CWTM(f=1))(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    rule: CoordinateRule
    anchors = ("answer",)
    formula = "mean of the n-f nearest to a coordinate rule's answer"
    promise = "κ ≤ (1+√((n-f)/(n-2f)))² f/(n-2f) with CWTM"
    time = "n log n · d"
    why = "among the f farthest from the coordinate rule's answer"
    fails = "in a sneak; and beyond f = n/3 its constant is larger than MeanwO's"
    source = "ours, for the linear time that Yi et al. 2024 point to (Narayanan 2018)"

    def __post_init__(self) -> None:
        if not isinstance(self.rule, CoordinateRule) or self.rule.tolerance() is None:
            raise BadInput(f"NearestTo was given {self.rule!r}; it takes a coordinate rule with an f, as CWTM(f=3).")

    @property
    def f(self) -> int:
        return self.rule.tolerance() or 0

    def tolerance(self) -> int:
        return self.f

    def least(self) -> int:
        return max(self.rule.least(), 2 * self.f + 1)

    def lowered(self, by: int) -> NearestTo:
        return NearestTo(self.rule.lowered(by))

    def stages(self) -> tuple[Stage, ...]:
        return (self.rule, self)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        return even(nearest(D[:, :n], 0, n - self.f), n + 1)
